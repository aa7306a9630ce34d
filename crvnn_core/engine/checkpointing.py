"""Activation checkpointing: the backward pass recomputes what a step made, so that only its state is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch.utils.checkpoint import checkpoint

from crvnn_core.kernels import fixed_weights

A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


def checkpointed(step: Callable[[A, B], R]) -> Callable[[A, B], R]:
    """The same step, whose intermediate results are recomputed in the backward pass."""

    def recomputed(state: A, update: B) -> R:
        with fixed_weights():  # by the same matrix products: a value close to a threshold must not cross it
            return step(state, update)

    def run(state: A, update: B) -> R:
        result: R = checkpoint(recomputed, state, update, use_reentrant=False)
        return result

    return run
