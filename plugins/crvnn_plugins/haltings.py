"""Haltings: which sequences go on after a step."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core import Halting


class Threshold(Halting):
    """Stops a sequence when at most one of its tokens exists with more than epsilon (Algorithm 2).

    :param epsilon: what counts as gone.
    """

    needs_vectors = False

    def __init__(self, epsilon: float = 0.01) -> None:
        super().__init__()
        if not 0 <= epsilon < 1:
            raise ValueError(f"epsilon must be at least 0 and below 1, not {epsilon}")
        self.epsilon = epsilon

    def forward(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor:
        return (exists > self.epsilon).sum(1) > 1


class Never(Halting):
    """Lets every sequence take as many steps as it can."""

    needs_vectors = False

    def forward(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor:
        return exists.new_ones(exists.shape[0], dtype=torch.bool)


class FixedDepth(Never):
    """Stops every sequence after the same number of steps.

    :param depth: the number of steps.
    """

    def __init__(self, depth: int = 8) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self.limit = depth
