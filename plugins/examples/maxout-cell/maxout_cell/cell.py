"""The cell itself."""

from typing import Annotated

import torch
from torch import Tensor, nn

from crvnn_core import Cell, Range, check_ranges


class MaxoutCell(Cell):
    """Each unit of the parent is the largest of several mixtures of the children.

    :param pieces: how many mixtures.
    """

    @check_ranges
    def __init__(self, width: int, pieces: Annotated[int, Range(ge=1)] = 3) -> None:
        super().__init__(width)
        self.pieces = pieces
        self.leaf_map = nn.Linear(width, width)
        self.mixtures = nn.Linear(2 * width, pieces * width)
        self.norm = nn.LayerNorm(width)

    def leaf(self, inputs: Tensor) -> Tensor:
        return self.norm(self.leaf_map(inputs))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        mixed = self.mixtures(torch.cat([left, right], -1))
        return self.norm(mixed.unflatten(-1, (self.pieces, self.width)).amax(-2))
