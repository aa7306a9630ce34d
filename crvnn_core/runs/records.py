"""Runs as they were written down: what a report and a comparison read. No weights are touched here."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.host.manager import Catalog
from crvnn_core.runs.directory import RunDirectory, find_run, seed_directories

#: What a score of ``results.json`` has, besides the number of its examples.
MEASURES = ("accuracy", "loss", "depth")
#: What a spec may say that changes nothing of what is learnt: these do not make another variant.
_BESIDES = ("seed", "training.observers", "training.save_every")


@frozen
class Record:
    """One run: what it was asked to do, with what, and how well it does."""

    name: str
    directory: RunDirectory = field(repr=False)
    #: Every value of the spec by its place: ``model.cell`` (a component's name), ``model.cell.hidden``.
    spec: Mapping[str, Any] = field(repr=False)
    #: Versions by package, the plug-ins that took part among them.
    versions: Mapping[str, str] = field(repr=False)
    #: ``results.json``: by split a ``total`` and ``buckets`` of scores; empty if there are none.
    splits: Mapping[str, Any] = field(repr=False)
    #: Why there are no results, if there are none.
    lacking: str = ""
    #: The step of the best weights.
    best_step: int | None = None

    @property
    def seed(self) -> int:
        """The number from which all that is random in it follows."""
        return int(self.spec.get("seed", 0))

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.spec.get("task", ""))

    @property
    def described(self) -> dict[str, Any]:
        """Everything that its result depends on but the seed: runs in which this is the same are of one variant."""
        kept = {key: value for key, value in self.spec.items() if key not in _BESIDES}
        return kept | {f"version of {name}": version for name, version in self.versions.items()}

    def value(self, split: str, bucket: str, measure: str) -> float | None:
        """A figure of its results (``bucket`` empty for the whole split), if it has it."""
        found = self.splits.get(split, {})
        score = found.get("buckets", {}).get(bucket, {}) if bucket else found.get("total", {})
        return number(score.get(measure))


@frozen
class Variant:
    """Runs that differ in nothing but the seed."""

    name: str
    runs: tuple[Record, ...]

    @property
    def seeds(self) -> int:
        """How many runs it has."""
        return len(self.runs)

    def values(self, split: str, bucket: str = "", measure: str = "accuracy") -> list[float]:
        """A figure of every run that has it."""
        found = (run.value(split, bucket, measure) for run in self.runs)
        return [value for value in found if value is not None]


def read_runs(names: Sequence[str], catalog: Catalog) -> list[Record]:
    """The runs in directories or under names of installed models; a group of seeds gives each of its members."""
    found: dict[Path, Record] = {}
    for name in names:
        for label, directory in _members(name, catalog):
            found.setdefault(directory.path.resolve(), _read(label, directory))
    return list(found.values())


def variants(records: Sequence[Record]) -> tuple[list[Variant], list[str]]:
    """Runs put together that differ in nothing but the seed, and remarks on what was left out.

    The same spec with the same seed is the same run once more, and says nothing new.
    """
    groups: dict[str, dict[int, Record]] = {}
    remarks = []
    for record in records:
        key = json.dumps(record.described, sort_keys=True, default=str)
        first = groups.setdefault(key, {}).setdefault(record.seed, record)
        if first is not record:
            remarks.append(f"{record.name} has the spec and the seed of {first.name}; it is counted once.")
    found = [Variant(_common_name(list(runs.values())), tuple(runs.values())) for runs in groups.values()]
    return _told_apart(found), remarks


def differences(described: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The places where not all say the same, and what each says there (``None`` where it says nothing)."""
    keys = _by_part(dict.fromkeys(key for one in described for key in one))
    values = {key: tuple(one.get(key) for one in described) for key in keys}
    return {key: told for key, told in values.items() if any(value != told[0] for value in told)}


def _by_part(keys: Iterable[str]) -> list[str]:
    """Keys as they come, but those of one part together."""
    listed = list(keys)
    parts = [".".join(key.split(".")[:2]) for key in listed]
    first = {part: number for number, part in reversed(list(enumerate(parts)))}
    return [key for _, key in sorted(zip(parts, listed, strict=True), key=lambda pair: first[pair[0]])]


def groups(found: Sequence[Variant]) -> dict[str, list[str]]:
    """Of every split the groups that any run tells apart; those that begin with a number in its order."""
    order: dict[str, dict[str, None]] = {}
    for variant in found:
        for run in variant.runs:
            for split, result in run.splits.items():
                order.setdefault(split, {}).update(dict.fromkeys(result["buckets"]))
    return {split: sorted(names, key=natural_order) for split, names in order.items()}


def natural_order(name: str) -> tuple[int, str]:
    """A sort key for the names of groups: "9-12" comes before "13-20", and names without a number come first."""
    start = re.match(r"\d+", name)
    return (int(start[0]) if start else -1, name)


def flat(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec's tables as one: a component's name stands at the place of the component."""
    found: dict[str, Any] = {}
    for key, value in spec.items():
        if not isinstance(value, Mapping):
            found[key] = value
            continue
        below = flat(value)
        if "name" in below:
            found[key] = below.pop("name")
        found |= {f"{key}.{inner}": each for inner, each in below.items()}
    return found


def check_one_task(records: Sequence[Record]) -> None:
    """Complain if the runs are about different things."""
    by_task: dict[str, list[str]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record.name)
    if len(by_task) > 1:
        listed = "; ".join(f"'{task}': {_some(names)}" for task, names in by_task.items())
        raise InputError(
            f"the runs are about different tasks, whose figures say nothing of each other.\n{listed}."
        )


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """What was measured during training, record by record; what is torn or no record is left out."""
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
            continue  # a run that goes on while we look may be writing this very line
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def number(value: Any) -> float | None:
    """A finite number, or nothing."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _members(name: str, catalog: Catalog) -> Iterator[tuple[str, RunDirectory]]:
    directory = find_run(name, catalog)
    if directory.spec.exists() or not directory.seeds.exists():
        yield str(name), directory
        return
    begun = [path for path in seed_directories(directory.path).values() if RunDirectory(path).spec.exists()]
    if not begun:
        raise CrvnnError(f"{name}: none of its seeds has begun; go on with 'crvnn train --resume {name}'")
    for path in begun:
        yield f"{str(name).rstrip('/')}/{path.name}", RunDirectory(path)


def _read(name: str, directory: RunDirectory) -> Record:
    directory.check_spec()
    try:
        spec = tomllib.loads(directory.spec.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CrvnnError(f"{directory.spec} is damaged: {error}") from None
    record = Record(name, directory, flat(spec), _versions(directory), {})
    if not directory.results.exists():
        return evolve(record, lacking=_why_no_results(name, directory))
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


def _why_no_results(name: str, directory: RunDirectory) -> str:
    if directory.weights.exists() or directory.last.exists():
        return (
            f"{name} has no results: it was stopped, or still trains ('crvnn train --resume {name}' goes on)"
        )
    return f"{name} has no results: no step of it was kept ('crvnn train --resume {name}' begins it)"


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
    """Of several runs the directory they are in, if it holds nothing but seeds: ``runs/lstm``."""
    homes = {run.name.rpartition("/")[0] for run in runs if re.fullmatch(r".+/seed-\d+", run.name)}
    if len(runs) == 1:
        return runs[0].name
    if len(homes) == 1 and all("/seed-" in run.name for run in runs):
        return homes.pop()
    return f"{runs[0].name} and {len(runs) - 1} more"


def _told_apart(found: Sequence[Variant]) -> list[Variant]:
    """No two of one name, and no name longer than that takes."""
    names = [variant.name for variant in found]
    names = [
        name if names.count(name) == 1 else f"{variant.runs[0].name} ..."
        for name, variant in zip(names, found, strict=True)
    ]
    return [evolve(variant, name=name) for name, variant in zip(shortened(names), found, strict=True)]


def shortened(names: Sequence[str]) -> list[str]:
    """Names without the directories that all of them begin with."""
    parts = [name.rstrip("/").split("/") for name in names]
    least = min((len(one) for one in parts), default=1)
    common = 0
    while common < least - 1 and len({one[common] for one in parts}) == 1:
        common += 1
    return ["/".join(one[common:]) for one in parts]


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
