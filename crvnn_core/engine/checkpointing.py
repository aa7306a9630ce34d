"""Activation checkpointing: the backward pass recomputes what a step made, so that only its state is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from crvnn_core.engine.state import State
from crvnn_core.kernels import fixed_weights

A = TypeVar("A")
R = TypeVar("R")


def checkpointed(step: Callable[[State, A], R]) -> Callable[[State, A], R]:
    """The same step, whose intermediate results are recomputed in the backward pass."""

    def recomputed(nodes: Tensor, state: State, update: A) -> R:
        with fixed_weights():  # the same matrix products to the bit: recomputation must select the same rows
            return step(state, update)

    def run(state: State, update: A) -> R:
        # torch looks for tensors among the arguments to know whose random state to restore, for dropout.
        result: R = checkpoint(recomputed, state.nodes, state, update, use_reentrant=False)
        return result

    return run
