"""The parents of the cell ``gated``; back ends in C++, and in torch with a custom backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crvnn_core.kernels import Operation, plain
from crvnn_parts.layers import ACTIVATIONS, Activation, activation, needs_torch_layers
from crvnn_parts.operations.gated.saving_memory import SavingMemory
from crvnn_parts.operations.library import PARTS

#: Nodes from which on the custom backward pass is used: with fewer it saves little memory and no time.
_MANY = 512


def mixed(left: Tensor, right: Tensor, gates: Tensor) -> Tensor:
    """The gated sum of left child, right child and candidate [..., d], before the LayerNorm."""
    width = left.shape[-1]
    gates, new = torch.split(gates, [3 * width, width], -1)
    keep_left, keep_right, take_new = torch.sigmoid(gates).chunk(3, -1)
    return torch.addcmul(torch.addcmul(keep_left * left, keep_right, right), take_new, new)


@Operation
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
    total = mixed(left, right, nn.functional.linear(inner, gates, gates_bias))
    return nn.functional.layer_norm(total, scale.shape, scale, shift, eps)


@gated.attach
@PARTS.backend
def _compiled(
    ops: Any,
    left: Tensor,
    right: Tensor,
    weights: list[Tensor],
    eps: float,
    kind: Activation,
    dropout_mask: Tensor | None,
) -> Any:
    if not plain(weights[0]):
        return NotImplemented
    return ops.gated(left, right, *weights, eps, ACTIVATIONS.index(kind), dropout_mask)


@gated.attach
def _saving_memory(
    left: Tensor,
    right: Tensor,
    weights: list[Tensor],
    eps: float,
    kind: Activation,
    dropout_mask: Tensor | None,
) -> Any:
    """A back end for any device: ``SavingMemory``, which saves about half of the memory of torch's graph."""
    if dropout_mask is not None or needs_torch_layers(left, weights[0]) or left.shape[:-1].numel() < _MANY:
        return NotImplemented
    return SavingMemory.apply(left, right, *weights, eps, kind)  # type: ignore[no-untyped-call]
