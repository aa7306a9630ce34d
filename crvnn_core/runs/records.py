"""The records of runs: specs, versions, results and metrics, for reports and comparisons. No weights are read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from crvnn_core.documents import read_toml
from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.runs.directory import RunDirectory, flatten
from crvnn_core.runs.results import natural_order

#: The metrics of a score in ``results.json``, besides the number of examples.
METRICS = ("accuracy", "loss", "depth")
#: Settings that do not affect the result: runs that differ only in these are of the same variant.
_IGNORED = ("seed", "training.observers", "training.save_every")


@frozen
class Record:
    """One run: its spec, the versions it was trained with, and its results."""

    name: str
    directory: RunDirectory = field(repr=False)
    #: The spec with dotted keys: ``model.cell`` (the name of the component), ``model.cell.hidden``.
    spec: Mapping[str, Any] = field(repr=False)
    #: Versions by package, plug-ins included.
    versions: Mapping[str, str] = field(repr=False)
    #: The splits of ``results.json``, each with a ``total`` and ``buckets`` of scores; empty without results.
    splits: Mapping[str, Any] = field(repr=False)
    #: Why there are no results; empty if there are.
    no_results: str = ""
    #: The step of the best weights.
    best_step: int | None = None

    @property
    def seed(self) -> int:
        """The random seed."""
        return int(self.spec.get("seed", 0))

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.spec.get("task", ""))

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything the result depends on except the seed: settings, and versions as ``versions.PACKAGE``."""
        settings = {
            key: value
            for key, value in self.spec.items()
            if re.sub(r"^stages\.\d+\.", "", key) not in _IGNORED
        }
        return settings | {f"versions.{name}": version for name, version in self.versions.items()}

    def value(self, split: str, group: str, metric: str) -> float | None:
        """A metric on a group of a split, or on the whole split if ``group`` is empty; ``None`` if not recorded."""
        result = self.splits.get(split, {})
        score = result.get("buckets", {}).get(group, {}) if group else result.get("total", {})
        return number(score.get(metric))


@frozen
class Variant:
    """Runs that differ only in their seed."""

    name: str
    runs: tuple[Record, ...]

    @property
    def seeds(self) -> int:
        """The number of runs."""
        return len(self.runs)

    def values(self, split: str, group: str = "", metric: str = "accuracy") -> list[float]:
        """A metric of every run that has it; see ``Record.value``."""
        found = (run.value(split, group, metric) for run in self.runs)
        return [value for value in found if value is not None]


def variants(records: Sequence[Record]) -> tuple[list[Variant], list[str]]:
    """Group runs that differ only in their seed, and name those left out as duplicates (same spec and seed)."""
    by_configuration: dict[str, dict[int, Record]] = {}
    remarks = []
    for record in records:
        key = json.dumps(record.configuration, sort_keys=True, default=str)
        first = by_configuration.setdefault(key, {}).setdefault(record.seed, record)
        if first is not record:
            remarks.append(f"{record.name} has the same spec and seed as {first.name}; it is counted once.")
    found = [
        Variant(_common_name(list(runs.values())), tuple(runs.values())) for runs in by_configuration.values()
    ]
    return _with_unique_names(found), remarks


def differences(configurations: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The keys whose values differ, with the value of each configuration (``None`` where it has no such key)."""
    found = list(dict.fromkeys(key for one in configurations for key in one))
    parts = [_part(key) for key in found]
    keys = sorted(found, key=lambda key: parts.index(_part(key)))  # those of a part next to each other
    values = {key: tuple(one.get(key) for one in configurations) for key in keys}
    return {key: each for key, each in values.items() if any(value != each[0] for value in each)}


def _part(key: str) -> str:
    return ".".join(key.split(".")[:2])


def with_stages_in_brief(found: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Differences in which a stage that only some configurations have is one entry: its name and its steps.

    Settings in which those that have the stage differ from one another are kept.
    """
    brief: dict[str, tuple[Any, ...]] = {}
    for part, keys in groupby(found, key=_part):
        rows = {key: found[key] for key in keys}
        columns = list(zip(*rows.values(), strict=True))
        owners = [place for place, column in enumerate(columns) if any(value is not None for value in column)]
        if not part.startswith("stages.") or len(owners) == len(columns):
            brief |= rows
            continue
        nothing = (None,) * len(columns)
        summary: list[str | None] = [None] * len(columns)
        for place in owners:
            name = rows.get(part, nothing)[place]
            steps = rows.get(f"{part}.training.steps", nothing)[place]
            length = f"{steps:,} steps" if steps else "a stage"
            summary[place] = f"{name}, {length}" if name else length
        brief[part] = tuple(summary)
        for key, values in rows.items():
            if key != part and len({repr(values[place]) for place in owners}) > 1:
                brief[key] = values
    return brief


def groups(found: Sequence[Variant]) -> dict[str, list[str]]:
    """The groups of each split over all runs, in natural order."""
    order: dict[str, dict[str, None]] = {}
    for variant in found:
        for run in variant.runs:
            for split, result in run.splits.items():
                order.setdefault(split, {}).update(dict.fromkeys(result["buckets"]))
    return {split: sorted(names, key=natural_order) for split, names in order.items()}


def check_one_task(records: Sequence[Record]) -> None:
    """Raise an error if the runs were not trained on the same task."""
    by_task: dict[str, list[str]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record.name)
    if len(by_task) > 1:
        listed = "; ".join(
            f"'{task}': {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}"
            for task, names in by_task.items()
        )
        raise InputError(f"runs of different tasks cannot be compared.\n{listed}.")


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a ``metrics.jsonl``, in order; truncated and foreign lines are skipped."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise CrvnnError(f"{path} cannot be read: {error}") from None
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # a run in progress may be writing this line
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def number(value: Any) -> float | None:
    """The value as a float, or ``None`` unless it is a finite number."""
    finite = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if finite else None


def read_record(name: str, directory: RunDirectory) -> Record:
    """The record of one run.

    :param name: what it is called in messages and tables.
    """
    directory.check_spec()
    try:
        spec = read_toml(directory.spec)
    except (OSError, ValueError) as error:
        raise CrvnnError(f"{directory.spec} is damaged: {error}") from None
    record = Record(name, directory, flatten(spec), _versions(directory), {})
    if not directory.results.exists():
        if directory.weights.exists() or directory.last.exists():
            why, does = "interrupted or still training", "resumes"
        else:
            why, does = "no checkpoint yet", "starts"
        advice = f"'crvnn train --resume {name}' {does} it"
        return evolve(record, no_results=f"{name} has no results: {why} ({advice})")
    results = directory.read_json(directory.results)
    splits = results.get("splits")
    if not isinstance(splits, dict) or not all(_is_result(result) for result in splits.values()):
        raise CrvnnError(f"{directory.results} is damaged: it lacks the scores of its splits")
    step = results.get("step")
    return evolve(record, splits=splits, best_step=step if isinstance(step, int) else None)


def _is_result(result: Any) -> bool:
    if not isinstance(result, dict) or not isinstance(result.get("buckets"), dict):
        return False
    scores = [result.get("total"), *result["buckets"].values()]
    return all(isinstance(score, dict) and number(score.get("examples")) is not None for score in scores)


def _versions(directory: RunDirectory) -> dict[str, str]:
    if not directory.environment.exists():
        return {}
    found = directory.read_json(directory.environment)
    packages = found.get("packages")
    versions = {str(key): str(value) for key, value in packages.items()} if isinstance(packages, dict) else {}
    components = found.get("components")
    for component in components if isinstance(components, list) else ():
        name, _, version = str(component).rpartition(" ")
        versions.setdefault(name or version, version if name else "")
    return versions


def _common_name(runs: Sequence[Record]) -> str:
    """The name of a single run; of several seeds in one directory, that directory: ``runs/lstm``."""
    if len(runs) == 1:
        return runs[0].name
    seeds = [re.fullmatch(r"(.+)/seed-\d+", run.name) for run in runs]
    parents = {match[1] if match else None for match in seeds}
    return (parents.pop() if len(parents) == 1 else None) or f"{runs[0].name} and {len(runs) - 1} more"


def _with_unique_names(found: Sequence[Variant]) -> list[Variant]:
    """Variants with different names, as short as possible."""
    names = [variant.name for variant in found]
    names = [
        name if names.count(name) == 1 else f"{variant.runs[0].name} ..."
        for name, variant in zip(names, found, strict=True)
    ]
    return [evolve(variant, name=name) for name, variant in zip(shortened(names), found, strict=True)]


def shortened(names: Sequence[str]) -> list[str]:
    """Names without the parent directories that they share."""
    parts = [name.rstrip("/").split("/") for name in names]
    least = min((len(one) for one in parts), default=1)
    common = 0
    while common < least - 1 and len({one[common] for one in parts}) == 1:
        common += 1
    return ["/".join(one[common:]) for one in parts]
