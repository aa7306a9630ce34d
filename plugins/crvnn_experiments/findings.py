"""What a study has found: a row for every trial, the best one, how much each setting matters; as tables and JSON."""

from __future__ import annotations

import io
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict, field, frozen

from crvnn_core.display.tables import Table, write_csv
from crvnn_core.runs.comparison import Spread
from crvnn_experiments.space import Params, Range, all_dimensions, short_names
from crvnn_experiments.study import Study

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

#: How a trial can stand, in the order in which a table lists them.
STATES = ("complete", "pruned", "failed", "running", "lost", "waiting")
_GROUPS = 4  # of a range of numbers, with as many trials each


@frozen
class Row:
    """One trial."""

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

    @property
    def remark(self) -> str:
        """The first line of the message, and how often the trial was begun again."""
        first = self.message.strip().splitlines()[:1]
        again = [f"begun {len(self.retries) + 1} times: {self.retries[-1]}"] if self.retries else []
        return "; ".join([*first, *again])

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        known = asdict(self)
        return {"trial": known.pop("number"), **known, "std": self.std}


@frozen
class Effect:
    """What the trials with one value of a setting, or with a range of values, have in common."""

    value: str
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
        return {
            "metric": self.metric,
            "direction": "maximize" if self.maximised else "minimize",
            "counts": self.counts,
            "best": self.best.number if self.best else None,
            "importance": self.importance,
            "effects": {name: list(map(asdict, effects)) for name, effects in self.effects.items()},
            "trials": [row.plain() for row in self.rows],
        }

    @property
    def trials(self) -> Table:
        """A row for each trial: its settings, the metric on the development split, and the metric on other splits."""
        names, unit = self._searched, " %" if self.metric == "accuracy" else ""
        short = short_names(names)
        splits = list(dict.fromkeys(split for row in self.rows for split in row.results))[1:]
        columns = ["trial", *(short[name] for name in names), "state"]
        numbers = [f"{self.metric}{unit}", *(f"{split}{unit}" for split in splits), "seconds"]
        rows = []
        for row in self.ordered:
            settings = [as_text(row.params[name]) if name in row.params else "" for name in names]
            others = [self._shown(row.results.get(split, {}).get(self.metric)) for split in splits]
            seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
            cells = (str(row.number), *settings, row.state, self.value(row), *others, seconds)
            rows.append((*cells, row.remark))
        right = (0, *range(len(columns), len(columns) + len(numbers)))
        return Table((*columns, *numbers, "remarks"), rows, right)

    @property
    def settings(self) -> Table:
        """A row for each value of each setting, the settings that matter most first."""
        short = short_names(list(self.effects))
        rows = []
        for name in dict.fromkeys([*self.importance, *self.effects]):
            share = f"{100 * self.importance[name]:.0f}%" if name in self.importance else ""
            for number, effect in enumerate(self.effects[name]):
                head = ("", "") if number else (short[name], share)
                mean, best = self._shown(effect.mean), self._shown(effect.best)
                rows.append((*head, effect.value, str(effect.trials), mean, best))
        return Table(("setting", "importance", "value", "trials", "mean", "best"), rows, (1, 3, 4, 5))

    def csv(self) -> str:
        """All trials with exact numbers and full names of settings."""
        measures = dict.fromkeys(
            (split, metric)
            for row in self.rows
            for split, metrics in row.results.items()
            for metric in metrics
        )
        rows = []
        for row in self.rows:
            cells = {"trial": row.number, "state": row.state, **row.params}
            cells |= {self.metric: row.value, "std": row.std}
            for split, metric in measures:
                cells[f"{split}/{metric}"] = row.results.get(split, {}).get(metric)
            cells |= {"seconds": row.seconds, "retries": len(row.retries)}
            rows.append({**cells, "message": row.message, "directory": row.directory})
        head = ["trial", "state", *self._searched, self.metric, "std", *map("/".join, measures)]
        out = io.StringIO()
        write_csv(out, [*head, "seconds", "retries", "message", "directory"], rows)
        return out.getvalue()

    def markdown(self, title: str) -> str:
        """The whole result as a page of Markdown."""
        importance = (
            "Importance: the share of the variance between complete trials that a setting alone explains."
        )
        parts = (f"# {title}\n\n{self.counted}.\n", self.trials.markdown(), f"{importance}\n")
        return "\n".join((*parts, self.settings.markdown()))

    @property
    def counted(self) -> str:
        """``35 trials: 33 complete, 2 failed``."""
        parts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        return f"{len(self.rows)} trials: {parts}"

    def value(self, row: Row) -> str:
        """The metric of a trial, with its standard deviation over seeds."""
        return self._shown(*row.values) if row.values else self._shown(row.value)

    @property
    def _searched(self) -> list[str]:
        """The settings that some trial has a value of, in the order of the search space."""
        known = {name for row in self.rows for name in row.params}
        return [name for name in self.effects if name in known]

    def _shown(self, *values: float | None) -> str:
        known = tuple(value for value in values if value is not None)
        return Spread(known).format(self.metric, 1 if self.metric == "accuracy" else 4) if known else ""


def as_text(value: Any) -> str:
    """A setting as a table shows it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_findings(study: Study) -> Findings:
    """What a study has found so far."""
    rows = [_row(trial, study.state(trial)) for trial in study.trials()]
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


def _row(trial: FrozenTrial, state: str) -> Row:
    known = trial.user_attrs
    return Row(
        number=int(known["directory"].rpartition("/")[2]),
        state=state,
        params={**trial.system_attrs.get("fixed_params", {}), **trial.params},
        value=trial.value if state in ("complete", "pruned") else None,
        values=tuple(known.get("values", ())),
        results=known.get("results", {}),
        seconds=known.get("seconds"),
        message=str(known.get("error", "")),
        retries=tuple(known.get("retries", ())),
        directory=known["directory"],
    )


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
