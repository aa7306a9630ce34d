"""Adapters from operations of the built-in parts and the engine (same names and arguments) to C++ operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import plain
from crvnn_parts.native.intervals import CompiledIntervals

#: Activations, in the order of ``Kind`` in activation.h.
KINDS = ("gelu", "gelu-tanh", "relu")
#: Forms of modulation, in the order of ``Form`` in modulation.h.
FORMS = ("paper", "bounded", "reference")


def intervals(ops: Any, exists: Tensor, mask: Tensor, accumulate: str, small: int) -> Any:
    if accumulate != "auto" or exists.dtype is not torch.float32:
        return NotImplemented
    if not mask.all():  # rare inside the recursion: testing costs less than a product
        exists = exists * mask
    return CompiledIntervals(exists, ops)


def adjacent(ops: Any, present: Tensor, exists: Tensor) -> Any:
    if exists.dtype is not torch.float32:
        return NotImplemented
    return CompiledIntervals(exists.detach(), ops, adjacent=True)


def window_scores(
    ops: Any,
    vectors: Tensor,
    near: Neighbourhood,
    left_c: Tensor,
    reach: int,
    layers: list[Tensor],
    features: tuple[Tensor | None, Tensor | None],
    activation: str,
) -> Any:
    if not plain(layers[0]):
        return NotImplemented
    weights = (*layers, *features, KINDS.index(activation))
    if isinstance(near, CompiledIntervals) and reach:
        return near.scores(vectors, reach, left_c, *weights)
    return ops.window_scores(near.stacked(vectors, reach).contiguous(), left_c.contiguous(), *weights)


def modulated(
    ops: Any,
    scores: Tensor,
    near: Neighbourhood,
    eligible: Tensor,
    exists: Tensor,
    form: str,
    stretch: float,
) -> Any:
    if not isinstance(near, CompiledIntervals):
        return NotImplemented
    flags = eligible.expand_as(scores).contiguous()
    return ops.modulated(scores.contiguous(), flags, *near.operands, FORMS.index(form), stretch)


def transition(
    ops: Any, c: Tensor, near: Neighbourhood, exists: Tensor, eligible: Tensor, tokens: Tensor
) -> Any:
    if not isinstance(near, CompiledIntervals):
        return NotImplemented
    state = (value.contiguous() for value in (c, exists, eligible, tokens))
    return ops.transition(*state, *near.operands)


def gated(
    ops: Any,
    left: Tensor,
    right: Tensor,
    weights: list[Tensor],
    eps: float,
    activation: str,
    dropout_mask: Tensor | None,
) -> Any:
    if not plain(weights[0]):
        return NotImplemented
    return ops.gated(left, right, *weights, eps, KINDS.index(activation), dropout_mask)
