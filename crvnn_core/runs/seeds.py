"""Runs that differ in their seed, in one directory: which are trained, which is best, and their results together."""

from __future__ import annotations

import re
import statistics
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from crvnn_core.errors import CrvnnError, CrvnnWarning
from crvnn_core.runs.directory import RunDirectory, seed_directories
from crvnn_core.runs.results import Result
from crvnn_core.runs.spec_file import is_whole


@frozen
class ChosenSeed:
    """The run of one seed, and why it was chosen."""

    directory: RunDirectory
    reason: str


def holds_seeds(directory: RunDirectory) -> bool:
    """Whether a directory holds the runs of several seeds, each in a subdirectory, and is no run itself."""
    if directory.spec.exists():
        return False
    runs = map(RunDirectory, seed_directories(directory.path).values())
    return directory.seeds.exists() or any(run.spec.exists() for run in runs)


def seeds_note(count: int) -> str:
    """The comment of ``seeds.toml`` that says how many seeds are trained, from that of the spec upwards."""
    return f"trained from {count} seeds"


def planned_seeds(directory: RunDirectory) -> list[int]:
    """The seeds that training was asked for, and any other that has a directory; empty of a run itself."""
    found = set(seed_directories(directory.path))
    if directory.seeds.exists():
        if not is_whole(directory.seeds):
            raise CrvnnError(
                f"{directory.seeds} is damaged: it was not written by crvnn, or was cut short. Seeds that have been "
                f"started can be resumed one by one: crvnn train --resume {directory.path}/seed-N"
            )
        text = directory.seeds.read_text(encoding="utf-8")
        noted = re.search(rf"^# {seeds_note(0).replace('0', '([0-9]{1,6})')}$", text, re.MULTILINE)
        first = int(tomllib.loads(text)["seed"])
        found |= set(range(first, first + int(noted[1]))) if noted else set()
    return sorted(found)


def trained_seeds(directory: RunDirectory) -> dict[int, RunDirectory]:
    """The runs of the seeds that have been trained to the end, by seed; of all that have weights if none has.

    A warning names the others.
    """
    runs = {seed: RunDirectory(path) for seed, path in seed_directories(directory.path).items()}
    weighty = {seed: run for seed, run in runs.items() if run.weights.exists()}
    if not weighty:
        raise CrvnnError(
            f"{directory.path}: none of its seeds has weights yet; 'crvnn train --resume {directory.path}' trains them"
        )
    used = {seed: run for seed, run in weighty.items() if run.results.exists()} or weighty
    planned = planned_seeds(directory) if is_whole(directory.seeds) else runs
    if missing := [f"seed-{seed}" for seed in planned if seed not in used]:
        warnings.warn(
            f"{directory.path}: without {', '.join(missing)}, not trained to the end; 'crvnn train --resume "
            f"{directory.path}' does it",
            CrvnnWarning,
            stacklevel=2,
        )
    return used


def best_seed(directory: RunDirectory) -> ChosenSeed:
    """The trained seed with the highest accuracy on the development split; the first, if there is no such split."""
    runs = trained_seeds(directory)
    accuracies = {
        seed: found for seed, run in runs.items() if (found := development_accuracy(run)) is not None
    }
    counted = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
    if not accuracies:
        return ChosenSeed(
            next(iter(runs.values())), f"the first of {counted}: no accuracy on a development split"
        )
    best = max(accuracies, key=lambda seed: accuracies[seed][1])
    split, accuracy = accuracies[best]
    return ChosenSeed(runs[best], f"the best of {counted} on '{split}' ({accuracy:.1%})")


def announcement(run: str, directory: RunDirectory | None) -> str:
    """Which seed of the directory ``run`` was loaded from ``directory``, and why; empty if ``run`` is a run itself."""
    if directory is None or not re.fullmatch(r"seed-\d+", directory.path.name):
        return ""
    group = RunDirectory(directory.path.parent)
    if Path(run).resolve() == directory.path.resolve() or not holds_seeds(group):
        return ""
    return f"{run}: using {directory.path.name}, {best_seed(group).reason}"


def development_accuracy(run: RunDirectory) -> tuple[str, float] | None:
    """The development split of a finished run, and the accuracy on it."""
    if not run.results.exists():
        return None
    found = run.read_json(run.results)
    splits = found.get("splits", {})
    split = found.get("development", "dev")  # some shipped models do not say
    accuracy = splits.get(split, {}).get("total", {}).get("accuracy")
    return (split, float(accuracy)) if accuracy is not None else None


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, median, minimum and standard deviation (of a sample)."""
    return {
        "mean": statistics.mean(values),
        "median": statistics.median(values),
        "min": min(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


@frozen
class SeedResults:
    """The results of several seeds on the same examples, by seed."""

    results: Mapping[int | None, Result]

    def spread(self, value: Callable[[Result], float | None]) -> dict[str, float] | None:
        """Mean, median, minimum and standard deviation of a value over the seeds that have it; ``None`` if none has."""
        found = [each for result in self.results.values() if (each := value(result)) is not None]
        return spread(found) if found else None

    def group(self, name: str, metric: str) -> dict[str, float] | None:
        """The spread of a metric on a group of the examples; on all of them if ``name`` is empty."""
        return self.spread(lambda result: _value(result, name, metric))

    def of_class(self, place: int, metric: str) -> dict[str, float] | None:
        """The spread of precision, recall or F1 of a class, given by its index."""
        return self.spread(lambda result: getattr(_classification(result).scores[place], metric))

    def plain(self) -> dict[str, Any]:
        """For JSON: what ``crvnn eval`` has for one run, with the spread over seeds in place of a number."""
        first = next(iter(self.results.values()))
        known = _classification(first)
        return {
            "total": self._plain_group("", first.total.examples),
            "buckets": {
                name: self._plain_group(name, score.examples) for name, score in first.buckets.items()
            },
            "macro_f1": self.spread(lambda result: _classification(result).macro_f1),
            "classes": {
                score.name: {
                    "support": score.support,
                    **{metric: self.of_class(place, metric) for metric in ("precision", "recall", "f1")},
                }
                for place, score in enumerate(known.scores)
            },
            "seeds": {str(seed): plain_result(result) for seed, result in self.results.items()},
        }

    def _plain_group(self, name: str, examples: int) -> dict[str, Any]:
        return {
            "examples": examples,
            **{metric: self.group(name, metric) for metric in ("accuracy", "loss", "depth")},
        }


def plain_result(result: Result) -> dict[str, Any]:
    """A result for JSON: scores in all and by group, macro F1, the scores of each class, the confusion matrix."""
    return {**result.plain(), **_classification(result).plain()}


def _value(result: Result, group: str, metric: str) -> float | None:
    score = result.buckets.get(group) if group else result.total
    return getattr(score, metric, None)


def _classification(result: Result) -> Any:
    return result.classification
