"""Runs that differ in their seed, in one directory: which are trained, which is best, and their results together."""

from __future__ import annotations

import re
import tomllib
import warnings
from pathlib import Path

from crvnn_core.errors import CrvnnError, CrvnnWarning
from crvnn_core.runs.directory import RunDirectory, is_whole, seed_directories


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


def best_seed(directory: RunDirectory) -> tuple[RunDirectory, str]:
    """The trained seed with the highest accuracy on the development split, and why it is that one.

    The first, if there is no such split.
    """
    runs = trained_seeds(directory)
    accuracies = {
        seed: found for seed, run in runs.items() if (found := development_accuracy(run)) is not None
    }
    counted = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
    if not accuracies:
        return next(iter(runs.values())), f"the first of {counted}: no accuracy on a development split"
    best = max(accuracies, key=lambda seed: accuracies[seed][1])
    split, accuracy = accuracies[best]
    return runs[best], f"the best of {counted} on '{split}' ({accuracy:.1%})"


def announcement(run: str, directory: RunDirectory | None) -> str:
    """Which seed of the directory ``run`` was loaded from ``directory``, and why; empty if ``run`` is a run itself."""
    if directory is None or not re.fullmatch(r"seed-\d+", directory.path.name):
        return ""
    group = RunDirectory(directory.path.parent)
    if Path(run).resolve() == directory.path.resolve() or not holds_seeds(group):
        return ""
    return f"{run}: using {directory.path.name}, {best_seed(group)[1]}"


def development_accuracy(run: RunDirectory) -> tuple[str, float] | None:
    """The development split of a finished run, and the accuracy on it."""
    if not run.results.exists():
        return None
    found = run.read_json(run.results)
    splits = found.get("splits", {})
    split = found.get("development", "dev")  # some shipped models do not say
    accuracy = splits.get(split, {}).get("total", {}).get("accuracy")
    return (split, float(accuracy)) if accuracy is not None else None
