"""Haltings: which sequences take another step."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from crvnn_core import Halting
from crvnn_core.annotations import Count, Range, check_ranges


class Threshold(Halting):
    """Stops a sequence when at most one of its tokens exists with more than epsilon (Algorithm 2).

    :param epsilon: what counts as gone.
    """

    needs_vectors = False

    @check_ranges
    def __init__(self, epsilon: Annotated[float, Range(ge=0, lt=1)] = 0.01) -> None:
        super().__init__()
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

    @check_ranges
    def __init__(self, depth: Count = 8) -> None:
        super().__init__()
        self.limit = depth
