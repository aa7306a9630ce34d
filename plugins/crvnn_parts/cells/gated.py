"""The cell ``gated``, the paper's; its operation has two back ends, C++ and torch with a custom backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import CountOrZero, Probability, check_ranges
from crvnn_core.kernels import operation, plain_parameters
from crvnn_parts.layers import (
    Activation,
    activation,
    activation_backward,
    first_derivatives,
    linear,
    needs_torch_layers,
)
from crvnn_parts.native import PARTS

#: Nodes from which on the custom backward pass is used: with fewer it saves little memory and no time.
_MANY = 512


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
        inner = self.dropout(activation(self.activation)(self.expand(torch.cat([left, right], -1))))
        parent: Tensor = self.norm(_mixed(left, right, self.gates(inner)))
        return parent


def _mixed(left: Tensor, right: Tensor, gates: Tensor) -> Tensor:
    """The gated sum of left child, right child and candidate [..., d], before the LayerNorm."""
    width = left.shape[-1]
    gates, new = torch.split(gates, [3 * width, width], -1)
    keep_left, keep_right, take_new = torch.sigmoid(gates).chunk(3, -1)
    return torch.addcmul(torch.addcmul(keep_left * left, keep_right, right), take_new, new)


@operation(PARTS)
def gated(
    left: Tensor,
    right: Tensor,
    weights: list[Tensor],
    eps: float,
    kind: Activation,
    dropout_mask: Tensor | None,
) -> Tensor:
    """The parents [..., d] of children [..., d]; ``dropout_mask`` is [..., h].

    :param weights: weight and bias of the map to the hidden units, of that to the gates, and of the LayerNorm.
    """
    expand, expand_bias, gates, gates_bias, scale, shift = weights
    inner = activation(kind)(nn.functional.linear(torch.cat([left, right], -1), expand, expand_bias))
    inner = inner if dropout_mask is None else inner * dropout_mask.to(inner.dtype)
    total = _mixed(left, right, nn.functional.linear(inner, gates, gates_bias))
    return nn.functional.layer_norm(total, scale.shape, scale, shift, eps)


@gated.attach
def _saving_memory(
    left: Tensor,
    right: Tensor,
    weights: list[Tensor],
    eps: float,
    kind: Activation,
    dropout_mask: Tensor | None,
) -> Any:
    """A back end for any device: ``_Gated``, which saves about half of the memory of torch's graph."""
    if dropout_mask is not None or needs_torch_layers(left, weights[0]) or left.shape[:-1].numel() < _MANY:
        return NotImplemented
    return _Gated.apply(left, right, *weights, eps, kind)  # type: ignore[no-untyped-call]


class _Gated(torch.autograd.Function):
    """The gated cell with a custom backward pass, which needs about half of the memory of torch's graph.

    The activation is recomputed, and gradients of slices are written in place.
    """

    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        right: Tensor,
        expand: Tensor,
        expand_bias: Tensor,
        gates: Tensor,
        gates_bias: Tensor,
        scale: Tensor,
        shift: Tensor,
        eps: float,
        kind: Activation,
    ) -> Tensor:
        width = left.shape[-1]
        shape = left.shape
        left, right = left.reshape(-1, width), right.reshape(-1, width)  # [m, d]
        inner = torch.addmm(expand_bias, left, expand[:, :width].t())  # [m, h]
        inner.addmm_(right, expand[:, width:].t())  # faster than concatenating the children, which is a copy
        active = activation(kind)(inner)
        mixing = torch.addmm(gates_bias, active, gates.t()).view(-1, 4, width)  # left, right, new, candidate
        mixing[:, :3].sigmoid_()
        total = (mixing[:, 0] * left).addcmul_(mixing[:, 1], right)
        total.addcmul_(mixing[:, 2], mixing[:, 3])
        parent, mean, rstd = torch.native_layer_norm(total, [width], scale, shift, eps)
        ctx.save_for_backward(left, right, inner, mixing, total, mean, rstd, expand, gates, scale, shift)
        ctx.kind, ctx.shape = kind, shape
        return parent.view(shape)

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        left, right, inner, mixing, total, mean, rstd, expand, gates, scale, shift = ctx.saved_tensors
        width = total.shape[-1]
        of_total, of_scale, of_shift = torch.ops.aten.native_layer_norm_backward(
            gradient.reshape(-1, width), total, [width], mean, rstd, scale, shift, [True, True, True]
        )
        of_mixing = torch.empty_like(mixing)
        torch.mul(of_total, left, out=of_mixing[:, 0])
        torch.mul(of_total, right, out=of_mixing[:, 1])
        torch.mul(of_total, mixing[:, 3], out=of_mixing[:, 2])
        torch.mul(of_total, mixing[:, 2], out=of_mixing[:, 3])
        opened = of_mixing[:, :3]
        torch.ops.aten.sigmoid_backward.grad_input(opened, mixing[:, :3], grad_input=opened)
        of_gates = of_mixing.view(-1, 4 * width)
        of_inner = activation_backward(ctx.kind, of_gates @ gates, inner)
        of_left = (of_inner @ expand[:, :width]).addcmul_(of_total, mixing[:, 0])
        of_right = (of_inner @ expand[:, width:]).addcmul_(of_total, mixing[:, 1])
        of_expand = torch.empty_like(expand)
        torch.mm(of_inner.t(), left, out=of_expand[:, :width])
        torch.mm(of_inner.t(), right, out=of_expand[:, width:])
        return (
            of_left.view(ctx.shape),
            of_right.view(ctx.shape),
            of_expand,
            of_inner.sum(0),
            of_gates.t() @ activation(ctx.kind)(inner),
            of_gates.sum(0),
            of_scale,
            of_shift,
            None,
            None,
        )
