"""Eq. 5 as matrices: the definition, and faster than linear time for few positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core import MatrixNeighbourhood
from crvnn_core.kernels import transformed
from crvnn_core.precision import at_least_float32, wide
from crvnn_parts.operations.intervals.run_sums import prefix_sums


def adhoc_matrices(exists: Tensor) -> MatrixNeighbourhood:
    """The matrices p_ij of Eq. 5 for left and right [B, n, n].

    With E the prefix sums of e, p_ij = min(1, E_j - E_i) - min(1, E_{j-1} - E_i) for j > i. Both
    sides are differences of one matrix min(1, E_b - E_a), a < b.
    """
    if torch.compiler.is_compiling() or transformed():  # which make a backward pass of their own
        return MatrixNeighbourhood(*_differences(_gaps(exists).clamp(0, 1), exists))
    to_left, to_right = _AdhocMatrices.apply(exists)  # type: ignore[no-untyped-call]
    return MatrixNeighbourhood(to_left, to_right)


def _gaps(exists: Tensor) -> Tensor:
    """E_b - E_a [B, n + 1, n + 1] in float64: their differences are as small as the smallest e."""
    line = prefix_sums(wide(exists))
    return line.unsqueeze(1) - line.unsqueeze(2)


def _differences(clipped: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
    """The matrices of both sides [B, n, n] from the clipped gaps."""
    kind, between = at_least_float32(exists).dtype, clipped[:, 1:, :-1]
    to_left, to_right = clipped[:, :-1, :-1] - between, clipped[:, 1:, 1:] - between
    return to_left.transpose(1, 2).to(kind), to_right.to(kind)


class _AdhocMatrices(torch.autograd.Function):
    """Both matrices from one, with a backward pass that needs one matrix instead of one per slice."""

    @staticmethod
    def forward(ctx: Any, exists: Tensor) -> tuple[Tensor, Tensor]:
        gap = _gaps(exists)
        # At a kink, to the precision of e, the one-sided derivative for decreasing e.
        ctx.save_for_backward(gap.to(at_least_float32(exists).dtype) <= 1)
        ctx.dtype = exists.dtype
        return _differences(gap.clamp_(0, 1), exists)

    @staticmethod
    def backward(ctx: Any, of_left: Tensor, of_right: Tensor) -> tuple[Tensor]:
        (within,) = ctx.saved_tensors
        of_left = of_left.transpose(1, 2)
        of_gap = pad(of_right, (1, 0, 1, 0))
        of_gap[:, 1:, :-1] -= of_right + of_left
        of_gap[:, :-1, :-1] += of_left
        of_gap = of_gap.triu_(1).mul_(within)
        kind = wide(of_gap[:0]).dtype  # large gradients of neighbours cancel in these sums
        of_line = (of_gap.sum(1, dtype=kind) - of_gap.sum(2, dtype=kind))[:, 1:]
        return (of_line.flip(1).cumsum(1).flip(1).to(ctx.dtype),)  # E_k contains e_j for all k >= j
