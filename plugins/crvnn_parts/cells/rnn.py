"""The Tree-RNN."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Probability, check_ranges
from crvnn_parts.layers import linear


class RNNCell(Cell):
    """A Tree-RNN: one affine map of both children, and tanh.

    :param dropout: on the children.
    """

    @check_ranges
    def __init__(self, width: int, dropout: Probability = 0.0) -> None:
        super().__init__(width)
        self.leaf_map = linear(width, width)
        self.compose = linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def leaf(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.leaf_map(inputs))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.tanh(self.compose(self.dropout(torch.cat([left, right], -1))))
