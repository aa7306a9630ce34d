"""The gated cell with a custom backward pass in torch, for any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_parts.layers import Activation, activation, activation_backward, first_derivatives


class SavingMemory(torch.autograd.Function):
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
