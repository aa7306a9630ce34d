"""Eq. 6 in linear time: a first-order linear recurrence.

The derivation stands in docs/explanation/linear-time.md.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core import Neighbourhood, Retriever
from crvnn_core.annotations import Weight, check_ranges
from crvnn_core.engine.neighbourhoods import apply_to_columns
from crvnn_core.precision import wide
from crvnn_parts.retrievers.dense import LogSpaceDense


class LogSpace(Retriever):
    """The probability that a position exists and that none in between does (Eq. 6), in linear time.

    :param guard: added to 1 - e, so that the logarithm of the dense form stays finite.
    """

    @check_ranges
    def __init__(self, guard: Weight = 1e-8) -> None:
        super().__init__()
        self.guard = guard

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        exists = exists * mask
        return _Scans(exists, 1 - wide(exists) + self.guard)

    def traceable(self) -> Retriever:
        return LogSpaceDense(self.guard)


class _Scans(Neighbourhood):
    def __init__(self, exists: Tensor, absent: Tensor) -> None:
        self.exists, self.absent = exists, absent.unsqueeze(-1)

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(self._left, values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(self._right, values)

    def _left(self, values: Tensor) -> Tensor:
        found = linear_scan(self.absent, self._weighted(values))
        return pad(found[:, :-1], (0, 0, 1, 0)).to(values.dtype)

    def _right(self, values: Tensor) -> Tensor:
        found = linear_scan(self.absent.flip(1), self._weighted(values).flip(1)).flip(1)
        return pad(found[:, 1:], (0, 0, 0, 1)).to(values.dtype)

    def _weighted(self, values: Tensor) -> Tensor:
        return self.exists.unsqueeze(-1) * values


def linear_scan(decay: Tensor, values: Tensor) -> Tensor:
    """y_i = values_i + decay_i * y_{i-1} along dimension 1, by recursive halving: O(n) work in O(log n) passes.

    ``decay`` [B, n, 1] keeps its own, wider dtype, and is rounded once per level.
    """
    n = values.shape[1]
    if n == 1:
        return values
    if n % 2:
        decay, values = pad(decay, (0, 0, 0, 1)), pad(values, (0, 0, 0, 1))
    even, odd = decay[:, 0::2], decay[:, 1::2]
    first, second = values[:, 0::2], values[:, 1::2]
    at_odd = linear_scan(even * odd, second + odd.to(values.dtype) * first)
    at_even = first + even.to(values.dtype) * pad(at_odd[:, :-1], (0, 0, 1, 0))
    return torch.stack([at_even, at_odd], 2).flatten(1, 2)[:, :n]
