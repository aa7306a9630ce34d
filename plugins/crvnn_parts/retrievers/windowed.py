"""Eq. 5 or 6 truncated to k positions: an n x k matrix, as the paper's conclusion proposes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core import Neighbourhood, Retriever
from crvnn_core.annotations import Count, check_ranges
from crvnn_core.engine.neighbourhoods import apply_to_columns


class Windowed(Retriever):
    """Eq. 5 or 6 over the k nearest positions on each side; positions farther away get probability 0.

    :param k: positions on each side.
    :param form: the relaxation within the window, ``adhoc`` (Eq. 5) or ``log-space`` (Eq. 6).
    """

    @check_ranges
    def __init__(self, k: Count = 16, form: Literal["adhoc", "log-space"] = "adhoc") -> None:
        super().__init__()
        self.k, self.form = k, form
        self.reach = k

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        exists = exists * mask
        # In a graph for all lengths there are k of them, also where that is more than there are positions.
        k = self.k if torch.compiler.is_compiling() else min(self.k, max(exists.shape[1] - 1, 1))
        return _Windows(self._weights(exists, k), self._weights(exists.flip(1), k).flip(1), k)

    def _weights(self, exists: Tensor, k: int) -> Tensor:
        """[B, n, k]: the probability that the position o + 1 to the left is the closest existing one."""
        seen = torch.stack([_shift(exists, o) for o in range(1, k + 1)], 2)
        if self.form == "adhoc":
            before = seen.cumsum(2) - seen
            return torch.where(before + seen <= 1, seen, (1 - before).clamp(min=0))
        nearer = torch.ones_like(seen[:, :, 0])
        weights = []
        for o in range(k):
            weights.append(seen[:, :, o] * nearer)
            nearer = nearer * (1 - seen[:, :, o])
        return torch.stack(weights, 2)


class _Windows(Neighbourhood):
    def __init__(self, to_left: Tensor, to_right: Tensor, k: int) -> None:
        self.to_left, self.to_right, self.k = to_left, to_right, k

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: self._gather(self.to_left, v, 1), values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: self._gather(self.to_right, v, -1), values)

    def _gather(self, weights: Tensor, values: Tensor, side: int) -> Tensor:
        total = torch.zeros_like(values)
        for o in range(self.k):
            total = total + weights[:, :, o, None].to(values.dtype) * _shift(values, side * (o + 1))
        return total


def _shift(values: Tensor, by: int) -> Tensor:
    """values[:, i - by], 0 where there is no such position."""
    n = values.shape[1]
    rest = (0, 0) * (values.dim() - 2)
    if by >= 0:
        return pad(values, (*rest, by, 0))[:, :n]
    return pad(values, (*rest, 0, -by))[:, -by:]
