"""The mirror image of a recursion: it reads a sequence from its last token, and a parent takes its left child's place.

A trace and levels describe the gap between two tokens, at the token to its left. So they mean the same trees in
either direction, and all that reads them is spared the question.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mirrored_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Values [B, n, ...] of tokens in the opposite order; those of padding stay where they are."""
    order = _opposite(mask, mask.sum(1, keepdim=True))
    return values.take_along_dim(order.view(*order.shape, *[1] * (values.dim() - 2)), 1)


def mirrored_gaps(values: Tensor, mask: Tensor) -> Tensor:
    """Values [..., B, n] of the gap behind each token in the opposite order; those behind the last token stay."""
    order = _opposite(mask, mask.sum(1, keepdim=True) - 1)
    return values.gather(-1, order.expand_as(values))


def _opposite(mask: Tensor, count: Tensor) -> Tensor:
    """For each sequence the places [B, n] with the first ``count`` [B, 1] of them in the opposite order."""
    place = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(place < count, count - 1 - place, place)
