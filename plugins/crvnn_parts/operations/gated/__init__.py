"""The parents of the cell ``gated``, with a back end in C++."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from crvnn_core.kernels import Operation, serves
from crvnn_parts.layers import ACTIVATIONS, Activation, activation
from crvnn_parts.operations.library import PARTS

#: A layer, or what it computes from its weights.
Layer = Callable[[Tensor], Tensor]


def gated_sum(
    left: Tensor, right: Tensor, expand: Layer, activate: Layer, gates: Layer, norm: Layer
) -> Tensor:
    """The parents [..., d] of children [..., d]: the norm of the gated sum of left child, right child and candidate."""
    width = left.shape[-1]
    contents = gates(activate(expand(torch.cat([left, right], -1))))
    shares, new = torch.split(contents, [3 * width, width], -1)
    keep_left, keep_right, take_new = torch.sigmoid(shares).chunk(3, -1)
    return norm(torch.addcmul(torch.addcmul(keep_left * left, keep_right, right), take_new, new))


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

    def activate(inner: Tensor) -> Tensor:
        active = activation(kind)(inner)
        return active if dropout_mask is None else active * dropout_mask.to(active.dtype)

    return gated_sum(
        left,
        right,
        partial(linear, weight=expand, bias=expand_bias),
        activate,
        partial(linear, weight=gates, bias=gates_bias),
        partial(layer_norm, normalized_shape=scale.shape, weight=scale, bias=shift, eps=eps),
    )


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
    if not serves(weights[0]):
        return NotImplemented
    return ops.gated(left, right, *weights, eps, ACTIVATIONS.index(kind), dropout_mask)
