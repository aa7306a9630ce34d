"""Eqs. 5 and 6 as dense n x n matrices: the definitions that the linear-time retrievers are tested against."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core import MatrixNeighbourhood, Neighbourhood, Retriever
from crvnn_core.annotations import Weight, check_ranges
from crvnn_core.precision import wide
from crvnn_parts.operations.intervals.matrices import adhoc_matrices


class AdhocDense(Retriever):
    """Eq. 5 as dense matrices."""

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        return adhoc_matrices(exists * mask)


class LogSpaceDense(Retriever):
    """Eq. 6 as dense matrices, as the paper has it.

    :param guard: added to 1 - e, so that the logarithm stays finite.
    """

    @check_ranges
    def __init__(self, guard: Weight = 1e-8) -> None:
        super().__init__()
        self.guard = guard

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        exists = wide(exists * mask)
        # The left matrix is the right matrix of the sequence read backwards.
        to_left = _log_space(exists.flip(1), self.guard).flip(1, 2)
        return MatrixNeighbourhood(to_left, _log_space(exists, self.guard))


def _log_space(exists: Tensor, guard: float) -> Tensor:
    """The matrix p_ij of Eq. 6 for the right side [B, n, n]."""
    n = exists.shape[1]
    log_absent = torch.log(1 - exists + guard).unsqueeze(1).expand(-1, n, -1).triu(1)
    between = log_absent.cumsum(2) - log_absent  # sum of log(1 - e_l) for l = i+1 .. j-1
    return (exists.unsqueeze(1) * torch.exp(between)).triu(1)
