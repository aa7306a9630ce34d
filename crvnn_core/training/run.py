"""A run: how it ended, what it writes to its directory (spec, vocabulary, checkpoints, weights) and reads back."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, frozen
from torch import Tensor, nn

from crvnn_core.documents import read_toml
from crvnn_core.errors import CrvnnError
from crvnn_core.interfaces import Task
from crvnn_core.model.model import Model
from crvnn_core.runs.directory import RunDirectory, keep_plugin_files
from crvnn_core.runs.results import Result, Results, Score
from crvnn_core.spec import spec_dict, write_spec
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training import checkpoint
from crvnn_core.training.stages import check_ended_stages


@frozen
class Outcome:
    """How training ended."""

    step: int
    best_step: int
    results: Mapping[str, Result]  # of the best weights, by split
    stopped: str = ""  # why it ended before its last step, if it did
    finished: bool = True  # false if it was interrupted and can be resumed

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        results = {split: result.plain() for split, result in self.results.items()}
        return {**asdict(self, recurse=False), "results": results}


def create_run(run: RunDirectory, assembly: Assembly) -> None:
    """Make the directory and write vocabulary, environment, plug-in files and spec; an error if it holds a run."""
    if run.spec.exists() or run.seeds.exists():
        raise CrvnnError(
            f"{run.path} holds a run already. Resume it with 'crvnn train --resume {run.path}', "
            "or choose another --out."
        )
    run.write_json(run.vocabulary, vocabulary_of(assembly.model, assembly.task))
    run.write_json(run.environment, environment(assembly.packages))
    keep_plugin_files(run, assembly.catalog.files)
    write_spec(assembly.spec, run.spec, assembly.notes())  # last, because a directory with a spec is a run


def write_results(
    run: RunDirectory, results: Mapping[str, Result], development: str, facts: Mapping[str, Any]
) -> None:
    """Write the results of a run.

    :param development: the name of the development split; empty if there is none.
    :param facts: what else is known: seed and step.
    """
    splits = {split: result.plain() for split, result in results.items()}
    run.write_json(run.results, {**facts, "development": development, "splits": splits})


def read_results(run: RunDirectory) -> Results:
    """The results in a run directory; empty if training has not ended."""
    if not run.results.exists():
        return Results()

    def score(plain: Mapping[str, Any]) -> Score:
        known: dict[str, Any] = {name: math.nan if value is None else value for name, value in plain.items()}
        return Score(**known)

    try:
        found = Results()
        for split, plain in run.read_json(run.results).get("splits", {}).items():
            buckets = {name: score(each) for name, each in plain["buckets"].items()}
            found[split] = Result(score(plain["total"]), buckets)
        return found
    except (AttributeError, KeyError, TypeError):
        raise CrvnnError(f"{run.results} is damaged: it lacks the scores of its splits") from None


def vocabulary_of(model: Model, task: Task) -> dict[str, Any]:
    """The vocabulary and classes of a model, as its file in a run directory has them."""
    return {
        "tokens": list(model.vocabulary.tokens),
        "classes": list(task.classes),
        "vector_size": model.embed.weight.shape[1],
    }


def environment(components: Sequence[str]) -> dict[str, Any]:
    """What a result may depend on besides the spec: versions, platform and number of threads.

    :param components: the packages that components come from.
    """
    return {
        "components": list(components),
        "packages": {name: version(name) for name in ("crvnn", "torch", "lightning-fabric", "safetensors")},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def threads_of(run: RunDirectory) -> int:
    """The number of threads that a run on this machine was begun with; 0 if it is not known."""
    try:
        found = run.read_json(run.environment).get("threads")
    except CrvnnError:  # only a record, without which the run can be resumed
        return 0
    return found if isinstance(found, int) and 0 < found <= (os.cpu_count() or 1) else 0


def fitted_weights(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights of one stage for the model of another.

    Parameters are the same in all stages. Buffers need not be: those that the weights lack are the model's own.
    """
    return {
        name: weights[name] if name in weights and weights[name].shape == own.shape else own
        for name, own in model.state_dict().items()
    }


def save_weights(run: RunDirectory, weights: Mapping[str, Tensor]) -> None:
    """Save the best weights of a run, with what they belong to: its vocabulary and its settings of the model."""
    checkpoint.save(run.weights, {"model": weights, "identity": run.identity()})


def save_checkpoint(run: RunDirectory, state: Mapping[str, Any], best: Mapping[str, Tensor] | None) -> None:
    """Save the training state, after the weights if they are the best so far.

    A run that is killed in between repeats the step and saves the weights again.
    """
    if not run.spec.exists():
        raise CrvnnError(
            f"{run.path}: the run directory was deleted or moved during training, so nothing is saved to it"
        )
    if best is not None:
        save_weights(run, best)
    checkpoint.save(run.last, state)


def last_state(run: RunDirectory | None, assembly: Assembly) -> dict[str, Any]:
    """The state in the last checkpoint of a run; empty if it was stopped before its first one.

    If settings have changed, the new spec is written.
    """
    if run is None or not run.spec.exists():
        raise CrvnnError(run.missing(run.spec) if run else "resuming needs the directory of a run")
    run.check_unchanged()
    known = run.read_vocabulary()
    if (known.tokens, known.classes) != (assembly.model.vocabulary.tokens, tuple(assembly.task.classes)):
        raise CrvnnError(
            f"{run.path}: the data has other tokens or classes than when this run was started; "
            "put the old data back, or start a new run"
        )
    if not run.last.exists() and run.results.exists():  # it is finished: do not overwrite it
        raise CrvnnError(f"{run.missing(run.last)}; without it this run cannot be resumed")
    state = checkpoint.load(run.last) if run.last.exists() else {}
    before, now = read_toml(run.spec), spec_dict(assembly.spec)
    if before != now:
        check_ended_stages(before, now, state["position"].get("stage", 0) if state else 0)
        write_spec(assembly.spec, run.spec, assembly.notes())  # with what --set has changed
        if run.weights.exists():
            save_weights(run, saved_weights(run.weights)[0])  # which belong to the new settings from now on
    return state


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put saved weights into a model; if they do not fit, an error that says in what."""
    ours = model.state_dict()
    if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise CrvnnError(f"{path} was not written by crvnn: some of its weights are not tensors")
    if "embed.weight" in weights and len(weights["embed.weight"]) != len(ours["embed.weight"]):
        raise CrvnnError(
            f"{path}: these weights know {len(weights['embed.weight'])} tokens, but the vocabulary has "
            f"{len(ours['embed.weight'])}; they belong to different runs"
        )
    problems = [f"missing: {name}" for name in ours if name not in weights]
    problems += [f"unknown: {name}" for name in weights if name not in ours]
    problems += [
        f"wrong shape: {name} is {list(weights[name].shape)}, the model's {list(tensor.shape)}"
        for name, tensor in ours.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    problems = problems or [
        f"not finite: {name} has NaN or infinity"  # every answer would be NaN
        for name, _ in model.named_parameters()
        if not bool(weights[name].isfinite().all())
    ]
    if problems:
        raise CrvnnError(f"{path}: these weights do not fit the model:\n  " + "\n  ".join(problems))
    model.load_state_dict(dict(weights))


def load_best_weights(model: Model, run: RunDirectory) -> None:
    """Put the best weights of a run into its model; an error if they do not fit, or belong to other files."""
    if not run.weights.exists():
        raise CrvnnError(run.missing(run.weights))
    weights, identity = saved_weights(run.weights)
    load_weights(model, weights, run.weights)
    run.check_identity(identity)


def saved_weights(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    """The weights in a file, and the identity of the run that they belong to, which older files do not have."""
    state = checkpoint.load(path)
    if not isinstance(state.get("model"), dict):
        raise CrvnnError(f"{path} holds no model")
    identity = state.get("identity")
    return state["model"], identity if isinstance(identity, dict) else {}


def begin_with(model: Model, path: Path) -> None:
    """Start from the weights of another run."""
    run = RunDirectory(path)
    if not run.weights.exists():
        raise CrvnnError(f"[training.start]: {run.missing(run.weights)}")
    if run.read_vocabulary().tokens != model.vocabulary.tokens:
        raise CrvnnError(
            f"[training.start]: the vocabulary of {path} differs; its weights do not fit this one"
        )
    load_best_weights(model, run)
