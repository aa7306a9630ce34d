"""Cells made from recurrent networks: the binary Tree-LSTM, a GRU for two children, the Tree-RNN."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Bias, Probability, check_ranges
from crvnn_parts.layers import linear


class LSTMCell(Cell):
    """A binary Tree-LSTM (Tai et al., 2015). The state is the concatenation of h and c.

    The defaults are those of the CRvNN authors' code. Tree-LSTMs along gold trees, and that of Gumbel-Tree, are usually
    trained with ``leaf = "tanh"``, ``forget_bias = 1`` and ``orthogonal = true``.

    :param dropout: on the gates.
    :param leaf: of an input x: ``gated`` for c = tanh(W x + b) and h = sigmoid(V x + d) tanh(c); ``tanh`` for
        h = tanh(V x + d) and the same c.
    :param forget_bias: initial bias of both forget gates.
    :param orthogonal: initialise the weights of the composition as an orthogonal matrix, not Glorot-uniform.
    """

    @check_ranges
    def __init__(
        self,
        width: int,
        dropout: Probability = 0.0,
        leaf: Literal["gated", "tanh"] = "gated",
        forget_bias: Bias = 0.0,
        orthogonal: bool = False,
    ) -> None:
        super().__init__(width, state_width=2 * width)
        self.tanh_leaf = leaf == "tanh"
        self.leaf_map = linear(width, 2 * width)
        self.gates = linear(2 * width, 5 * width)
        self.dropout = nn.Dropout(dropout)
        if orthogonal:
            nn.init.orthogonal_(self.gates.weight)
        nn.init.constant_(self.gates.bias[: 2 * width], forget_bias)

    def leaf(self, inputs: Tensor) -> Tensor:
        output, memory = self.leaf_map(inputs).chunk(2, -1)
        memory = torch.tanh(memory)
        if self.tanh_leaf:
            return torch.cat([torch.tanh(output), memory], -1)
        return torch.cat([torch.sigmoid(output) * torch.tanh(memory), memory], -1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        (left_h, left_c), (right_h, right_c) = left.chunk(2, -1), right.chunk(2, -1)
        gates, new = self.dropout(self.gates(torch.cat([left_h, right_h], -1))).split(
            [4 * self.width, self.width], -1
        )
        forget_left, forget_right, take, output = torch.sigmoid(gates).chunk(4, -1)
        memory = forget_left * left_c + forget_right * right_c + take * torch.tanh(new)
        return torch.cat([output * torch.tanh(memory), memory], -1)


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
