"""Putting saved weights into a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from crvnn_core.errors import FAILURES, CrvnnError
from crvnn_core.model.model import Model
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint


def load_weights(model: Model, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put saved weights into a model; if they do not fit, an error that says in what."""
    _expect_fit(model.state_dict(), weights, path)
    if broken := [f"not finite: {name} has NaN or infinity" for name in _not_finite(model, weights)]:
        raise CrvnnError(_misfit(path, broken))
    model.load_state_dict(dict(weights))


def _expect_fit(ours: Mapping[str, Tensor], weights: Mapping[str, Tensor], path: Path) -> None:
    if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise CrvnnError(f"{path} was not written by crvnn: some of its weights are no tensors")
    if "embed.weight" in weights and len(weights["embed.weight"]) != len(ours["embed.weight"]):
        raise CrvnnError(
            f"{path}: these weights know {len(weights['embed.weight'])} tokens, but the vocabulary has "
            f"{len(ours['embed.weight'])}; they belong to different runs"
        )
    problems = [f"missing: {name}" for name in ours if name not in weights]
    problems += [f"unknown: {name}" for name in weights if name not in ours]
    problems += [
        f"misshapen: {name} is {list(weights[name].shape)}, the model's {list(tensor.shape)}"
        for name, tensor in ours.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if problems:
        raise CrvnnError(_misfit(path, problems))


def _misfit(path: Path, problems: list[str]) -> str:
    return f"{path}: these weights do not fit the model:\n  " + "\n  ".join(problems)


def _not_finite(model: Model, weights: Mapping[str, Tensor]) -> list[str]:
    """The parameters for which the weights have NaN or infinity: every answer would be NaN."""
    names = [name for name, _ in model.named_parameters() if name in weights]
    return [name for name in names if not bool(weights[name].isfinite().all())]


def saved_weights(path: Path) -> Mapping[str, Tensor]:
    """The weights in a file of ours."""
    return _saved(path)[0]


def expect_fit(build: Callable[[], Model], run: RunDirectory) -> None:
    """Raise an error if the best weights of a run do not fit its model, before there is memory for either.

    A model that cannot be built on the meta device is not compared here.

    :param build: makes the model.
    """
    if not run.weights.exists():
        raise CrvnnError(run.missing(run.weights))
    weights, _ = _saved(run.weights, shapes_only=True)
    try:
        with torch.device("meta"):
            ours = build().state_dict()
    except FAILURES:  # what is wrong with it shows when it is built
        return
    _expect_fit(ours, weights, run.weights)


def load_best_weights(model: Model, run: RunDirectory) -> None:
    """Put the best weights of a run into its model; an error if they do not fit, or belong to other files.

    Older files do not say what they belong to.
    """
    if not run.weights.exists():
        raise CrvnnError(run.missing(run.weights))
    weights, identity = _saved(run.weights)
    load_weights(model, weights, run.weights)
    run.check_identity(identity)


def _saved(path: Path, *, shapes_only: bool = False) -> tuple[Mapping[str, Tensor], Mapping[str, str]]:
    """The weights in a file, and the identity of the run that they belong to."""
    state = checkpoint.load(path, shapes_only=shapes_only)
    if not isinstance(state.get("model"), dict):
        raise CrvnnError(f"{path} holds no model")
    identity = state.get("identity")
    return state["model"], identity if isinstance(identity, dict) else {}


def begin_with(model: Model, path: Path) -> None:
    """Start from the weights of another run."""
    run = RunDirectory(path)
    if not run.weights.exists():
        raise CrvnnError(f"[training.start]: {run.missing(run.weights)}")
    if run.read_lexicon().tokens != model.vocabulary.tokens:
        raise CrvnnError(
            f"[training.start]: the vocabulary of {path} is another; its weights mean nothing here"
        )
    load_best_weights(model, run)
