"""The binary Tree-LSTM."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Probability, check_ranges
from crvnn_plugins.layers import linear


class LSTMCell(Cell):
    """A binary Tree-LSTM. The state is the concatenation of h and c.

    :param dropout: on the gates.
    """

    @check_ranges
    def __init__(self, width: int, dropout: Probability = 0.0) -> None:
        super().__init__(width, state_width=2 * width)
        self.leaf_map = linear(width, 2 * width)
        self.gates = linear(2 * width, 5 * width)
        self.dropout = nn.Dropout(dropout)

    def leaf(self, inputs: Tensor) -> Tensor:
        output, memory = self.leaf_map(inputs).chunk(2, -1)
        memory = torch.tanh(memory)
        return torch.cat([torch.sigmoid(output) * torch.tanh(memory), memory], -1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        (left_h, left_c), (right_h, right_c) = left.chunk(2, -1), right.chunk(2, -1)
        gates, new = self.dropout(self.gates(torch.cat([left_h, right_h], -1))).split(
            [4 * self.width, self.width], -1
        )
        forget_left, forget_right, take, output = torch.sigmoid(gates).chunk(4, -1)
        memory = forget_left * left_c + forget_right * right_c + take * torch.tanh(new)
        return torch.cat([output * torch.tanh(memory), memory], -1)
