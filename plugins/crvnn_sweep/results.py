"""What a study has found: a row for every trial, the best one, and how much each setting matters."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from crvnn_sweep.space import Params, Range, all_dimensions
from crvnn_sweep.study import Study

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

#: How a trial can stand, in the order in which a table lists them.
STATES = ("complete", "pruned", "failed", "running", "lost", "waiting")
_GROUPS = 4  # of a range of numbers, with as many trials each


@frozen
class Row:
    """One trial. If it was begun several times, this is the last time."""

    number: int
    state: str
    params: Params
    #: The metric on the development split: the mean over seeds, of a pruned trial the last value.
    value: float | None
    #: The value of each seed.
    values: tuple[float, ...]
    #: Means over seeds of accuracy, loss and depth, by split.
    results: Mapping[str, Mapping[str, float]] = field(repr=False)
    seconds: float | None
    #: Why it failed or was pruned.
    message: str
    #: Why it was begun again, each time.
    retries: tuple[str, ...]
    directory: str

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds; ``None`` for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "trial": self.number,
            "state": self.state,
            "params": self.params,
            "value": self.value,
            "std": self.std,
            "values": list(self.values),
            "results": self.results,
            "seconds": self.seconds,
            "message": self.message,
            "retries": list(self.retries),
            "directory": self.directory,
        }


@frozen
class Effect:
    """What the trials with one value of a setting, or with a range of values, have in common."""

    label: str
    trials: int
    mean: float
    best: float


@frozen
class Findings:
    """Everything that a study has found so far."""

    metric: str
    maximised: bool
    rows: tuple[Row, ...]
    #: The share of the variance between trials that each setting alone explains.
    importance: Mapping[str, float]
    #: For each setting its values, in the order of the search space.
    effects: Mapping[str, tuple[Effect, ...]]

    @property
    def complete(self) -> list[Row]:
        """The trials with a result, the best first."""
        found = [row for row in self.rows if row.state == "complete" and row.value is not None]
        return sorted(found, key=lambda row: (-1 if self.maximised else 1) * (row.value or 0.0))

    @property
    def best(self) -> Row | None:
        """The best trial."""
        return next(iter(self.complete), None)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials stand how."""
        found = Counter(row.state for row in self.rows)
        return {state: found[state] for state in STATES if found[state]}

    @property
    def ordered(self) -> list[Row]:
        """Complete trials, the best first, then the others by state and number."""
        rest = [row for row in self.rows if row.state != "complete"]
        return [*self.complete, *sorted(rest, key=lambda row: (STATES.index(row.state), row.number))]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        best = self.best
        return {
            "metric": self.metric,
            "direction": "maximize" if self.maximised else "minimize",
            "counts": self.counts,
            "best": best.number if best else None,
            "importance": dict(self.importance),
            "effects": {
                name: [
                    {"value": e.label, "trials": e.trials, "mean": e.mean, "best": e.best} for e in effects
                ]
                for name, effects in self.effects.items()
            },
            "trials": [row.plain() for row in self.rows],
        }


def read_findings(study: Study) -> Findings:
    """What a study has found so far."""
    lost = {trial.number for trial in study.lost()}
    rows = _rows(study.trials(), lost)
    metric, maximised = study.sweep.metric, study.sweep.maximised
    complete = [row for row in rows if row.state == "complete" and row.value is not None]
    importance, effects = {}, {}
    for dimension in all_dimensions(study.sweep.dimensions):
        groups = _groups(dimension, complete)
        if len(groups) > 1:
            importance[dimension.name] = explained_variance(list(groups.values()))
        best = max if maximised else min
        effects[dimension.name] = tuple(
            Effect(label, len(values), statistics.fmean(values), best(values))
            for label, values in groups.items()
        )
    ranked = dict(sorted(importance.items(), key=lambda item: -item[1]))
    return Findings(metric, maximised, tuple(rows), ranked, effects)


def _rows(trials: Sequence[FrozenTrial], lost: set[int]) -> list[Row]:
    """A row for each trial that was not begun again, with the reasons of those that it continues."""
    by_number = {trial.number: trial for trial in trials}
    found = []
    for trial in trials:
        attributes = trial.user_attrs
        if "continued" in attributes:
            continue
        reasons: list[str] = []
        before = attributes.get("continues")
        while before is not None:
            earlier = by_number[before].user_attrs
            reasons.insert(0, str(earlier.get("continued", "")))
            before = earlier.get("continues")
        found.append(
            Row(
                number=int(attributes["directory"].rpartition("/")[2]),
                state="lost" if trial.number in lost else _STATES[trial.state.name],
                params={**trial.system_attrs.get("fixed_params", {}), **trial.params},
                value=trial.value if trial.state.name in ("COMPLETE", "PRUNED") else None,
                values=tuple(attributes.get("values", ())),
                results=attributes.get("results", {}),
                seconds=attributes.get("seconds"),
                message=str(attributes.get("error", "")),
                retries=tuple(reasons),
                directory=attributes["directory"],
            )
        )
    return sorted(found, key=lambda row: row.number)


_STATES = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


def _groups(dimension: Any, rows: Sequence[Row]) -> dict[str, list[float]]:
    """The values of trials by the value of a setting; of a range of many numbers by quarters of the trials."""
    pairs = [(row.params[dimension.name], row.value or 0.0) for row in rows if dimension.name in row.params]
    listed = dimension.values()
    if listed is not None and (len(listed) <= 2 * _GROUPS or not isinstance(dimension, Range)):
        groups = {str(label): [value for own, value in pairs if own == label] for label in listed}
        return {label: values for label, values in groups.items() if values}
    pairs.sort()
    found = {}
    for number in range(min(_GROUPS, len(pairs))):
        part = pairs[number * len(pairs) // _GROUPS : (number + 1) * len(pairs) // _GROUPS]
        if part:
            found[f"{part[0][0]:.3g} to {part[-1][0]:.3g}"] = [value for _, value in part]
    return found


def explained_variance(groups: Sequence[Sequence[float]]) -> float:
    """The share of the variance that lies between groups, corrected for what chance alone would give (epsilon squared).

    0 where groups differ no more than trials of one group do, 1 where the group decides everything.
    """
    values = [value for group in groups for value in group]
    mean = statistics.fmean(values)
    total = sum((value - mean) ** 2 for value in values)
    within = sum((value - statistics.fmean(group)) ** 2 for group in groups for value in group)
    free = len(values) - len(groups)
    if total <= 0 or free < 1:
        return 0.0
    between = total - within - (len(groups) - 1) * within / free
    return max(0.0, between / total)
