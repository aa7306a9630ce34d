"""A GRU for two children."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Probability, check_ranges
from crvnn_parts.layers import linear


class GRUCell(Cell):
    """A GRU for two children: a reset gate for each, and a softmax per unit over left, right and candidate.

    :param dropout: on the candidate's input.
    """

    @check_ranges
    def __init__(self, width: int, dropout: Probability = 0.0) -> None:
        super().__init__(width)
        self.leaf_map = linear(width, width)
        self.gates = linear(2 * width, 5 * width)
        self.candidate = linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def leaf(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.leaf_map(inputs))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        children = torch.cat([left, right], -1)
        reset, choose = self.gates(children).split([2 * self.width, 3 * self.width], -1)
        new = torch.tanh(self.candidate(self.dropout(torch.sigmoid(reset) * children)))
        share = torch.softmax(choose.unflatten(-1, (3, self.width)), -2)
        options = torch.stack([left, right, new.to(left.dtype)], -2)
        return (share * options).sum(-2)
