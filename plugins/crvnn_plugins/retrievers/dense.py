"""Eqs. 5 and 6 written out as n x n matrices: slow, plain, and the twins of the linear-time retrievers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from crvnn_core import MatrixNeighbourhood, Neighbourhood, Retriever
from crvnn_plugins.retrievers.precision import wide


class AdhocDense(Retriever):
    """Eq. 5 as it stands in the paper."""

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        return _both_sides(_adhoc, wide(exists * mask))


class LogSpaceDense(Retriever):
    """Eq. 6 as it stands in the paper.

    :param guard: added to 1 - e, so that the logarithm stays finite.
    """

    def __init__(self, guard: float = 1e-8) -> None:
        super().__init__()
        self.guard = guard

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        return _both_sides(lambda e: _log_space(e, self.guard), wide(exists * mask))


def _both_sides(to_right: Callable[[Tensor], Tensor], exists: Tensor) -> MatrixNeighbourhood:
    """The left matrix is the right matrix of the sequence read backwards."""
    return MatrixNeighbourhood(to_right(exists.flip(1)).flip(1, 2), to_right(exists))


def _adhoc(exists: Tensor) -> Tensor:
    """p_ij of Eq. 5 [B, n, n]."""
    e = exists.unsqueeze(1).expand(-1, exists.shape[1], -1).triu(1)  # e_j where j > i
    up_to = e.cumsum(2)  # sum of e_l for l = i+1 .. j
    p = torch.where(up_to <= 1, e, (1 - (up_to - e)).clamp(min=0))
    return p.triu(1)


def _log_space(exists: Tensor, guard: float) -> Tensor:
    """p_ij of Eq. 6 [B, n, n]."""
    n = exists.shape[1]
    log_absent = torch.log(1 - exists + guard).unsqueeze(1).expand(-1, n, -1).triu(1)
    between = log_absent.cumsum(2) - log_absent  # sum of log(1 - e_l) for l = i+1 .. j-1
    return (exists.unsqueeze(1) * torch.exp(between)).triu(1)
