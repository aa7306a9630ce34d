"""The cell ``gated``, the paper's."""

from __future__ import annotations

from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import CountOrZero, Probability, check_ranges
from crvnn_core.kernels import plain_parameters
from crvnn_parts.layers import Activation, activation, linear
from crvnn_parts.operations.gated import gated, gated_sum


class GatedCell(Cell):
    """The paper's gated recursive cell: a LayerNorm of the gated sum of left child, right child and candidate.

    :param hidden: hidden units between the two affine maps; 0 for four times the width.
    :param activation: of the hidden units.
    :param dropout: on the hidden units.
    :param shared_norm: one LayerNorm for leaves and parents, as in the authors' code.
    """

    @check_ranges
    def __init__(
        self,
        width: int,
        hidden: CountOrZero = 0,
        activation: Activation = "gelu",
        dropout: Probability = 0.0,
        shared_norm: bool = False,
    ) -> None:
        super().__init__(width)
        hidden = hidden or 4 * width
        self.activation = activation
        self.leaf_map = linear(width, width)
        self.expand = linear(2 * width, hidden)
        self.dropout = nn.Dropout(dropout)
        self.gates = linear(hidden, 4 * width)
        self.norm = nn.LayerNorm(width)
        self.leaf_norm = self.norm if shared_norm else nn.LayerNorm(width)

    def leaf(self, inputs: Tensor) -> Tensor:
        state: Tensor = self.leaf_norm(self.leaf_map(inputs))
        return state

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        weights = plain_parameters(self.expand, self.gates, self.norm)
        if weights is None or type(self.dropout) is not nn.Dropout:
            return self.layer_by_layer(left, right)  # a layer has hooks or was replaced, so it must be called
        # The layer's own mode counts, not the cell's: Monte Carlo dropout has only dropout in training mode.
        dropout_mask = self._dropout_mask(left) if self.dropout.training and self.dropout.p else None
        return gated(left, right, weights, self.norm.eps, self.activation, dropout_mask)

    def _dropout_mask(self, children: Tensor) -> Tensor:
        """The mask [..., h] (0 or 1 / (1 - p)) that the dropout layer would draw, from the same random numbers."""
        return self.dropout(children.new_ones(*children.shape[:-1], self.expand.out_features))  # type: ignore[no-any-return]

    def layer_by_layer(self, left: Tensor, right: Tensor) -> Tensor:
        """The parents of children [..., d], with every layer called as a module."""
        activate = activation(self.activation)
        return gated_sum(
            left, right, self.expand, lambda inner: self.dropout(activate(inner)), self.gates, self.norm
        )
