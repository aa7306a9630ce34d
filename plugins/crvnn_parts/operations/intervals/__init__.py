"""Eq. 5: soft neighbours are intervals of length 1 over the prefix sums of existence.

The derivation stands in docs/explanation/linear-time.md.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core import Neighbourhood
from crvnn_core.engine.neighbourhoods import IdentityCache, adjacent
from crvnn_core.kernels import Operation, serves, transformed
from crvnn_parts.operations.intervals.linear import LinearIntervals
from crvnn_parts.operations.intervals.matrices import adhoc_matrices
from crvnn_parts.operations.library import PARTS


@Operation
def intervals(exists: Tensor, mask: Tensor, accumulate: str, small: int) -> Neighbourhood:
    """The neighbourhood of Eq. 5; as dense matrices for at most ``small`` positions."""
    exists = exists * mask
    auto = exists.device.type == "mps"
    pairs = auto if accumulate == "auto" else accumulate == "float32-pairs"
    if (exists.shape[1] <= small or transformed()) and not pairs:  # the matrices need float64
        return adhoc_matrices(exists)
    return LinearIntervals(exists, pairs)


@intervals.attach
@PARTS.backend
def _compiled(ops: Any, exists: Tensor, mask: Tensor, accumulate: str, small: int) -> Any:
    if accumulate != "auto" or exists.dtype is not torch.float32:
        return NotImplemented
    if not mask.all():  # rare inside the recursion: testing costs less than a product
        exists = exists * mask
    return CompiledIntervals(exists, ops)


@adjacent.attach
@PARTS.backend
def _compiled_adjacent(ops: Any, present: Tensor, exists: Tensor) -> Any:
    if exists.dtype is not torch.float32:
        return NotImplemented
    return CompiledIntervals(exists.detach(), ops, adjacent=True)


class CompiledIntervals(Neighbourhood):
    """The neighbourhood of Eq. 5, computed by C++ operators.

    :param exists: existence [B, n], 0 under padding, in float32 on a CPU.
    :param ops: the operators of ``crvnn_parts``.
    :param adjacent: whether existence is 1 except under padding, so that neighbours are the positions next to one.
    """

    caches = True

    def __init__(self, exists: Tensor, ops: Any, adjacent: bool = False) -> None:
        self.ops, self.adjacent = ops, adjacent
        exists = exists.contiguous()
        #: What every operator takes: existence [B, n], the bounds of the runs of whole positions [B, 4, n], and the
        #: fractions of the positions in which the intervals end [B, 2, n].
        self.operands: tuple[Tensor, Tensor, Tensor] = (exists, *ops.interval_bounds(exists.detach()))
        self._lefts: IdentityCache[Tensor] = IdentityCache()

    def left(self, values: Tensor) -> Tensor:
        return self._lefts.get(values, lambda v: self._neighbour(v, 0))

    def right(self, values: Tensor) -> Tensor:
        return self._neighbour(values, 1)

    def stacked(self, values: Tensor, reach: int) -> Tensor:
        if not reach or values.dim() != 3 or not _for_kernels(values):
            return super().stacked(values, reach)
        found: Tensor
        found, left = self.ops.window(values.contiguous(), *self.operands, reach)
        self._lefts.put(values, left)
        return found

    def multiply_adds(self, values: Tensor) -> int:
        """A row enters at most two sums (run_sums.h), and the row in which the interval ends is added."""
        return 3 * values.numel()

    def scores(self, values: Tensor, reach: int, left_c: Tensor, *layers: Any) -> Tensor:
        """``window_scores`` of values [B, n, d]; the backward pass recomputes their windows."""
        found: Tensor
        if self.adjacent:
            found = self.ops.adjacent_scores(
                values.contiguous(), self.operands[0], reach, left_c.contiguous(), *layers
            )
            return found
        found, left = self.ops.interval_scores(
            values.contiguous(), *self.operands, reach, left_c.contiguous(), *layers
        )
        self._lefts.put(values, left)
        return found

    def _neighbour(self, values: Tensor, side: int) -> Tensor:
        if not _for_kernels(values):
            return self._with_torch(values, side)
        found: Tensor = self.ops.neighbour(values.contiguous(), *self.operands, side)
        return found

    def _with_torch(self, values: Tensor, side: int) -> Tensor:
        """The same with torch, for values of another type: the sum over each run, and the fraction at its end."""
        given, bounds, _ = self.operands
        wide = (values.unsqueeze(-1) if values.dim() == 2 else values).double()
        exists = given.double().unsqueeze(-1)
        line, sums = (pad(part.cumsum(1), (0, 0, 1, 0)) for part in (exists, exists * wide))
        n = wide.shape[1]
        own, bound = torch.arange(n, device=wide.device).expand_as(given), bounds[:, side].long()
        begin, end = (bound, own) if side == 0 else (own + 1, bound)
        last = bound - 1 if side == 0 else bound  # the position in which the interval ends

        def at(table: Tensor, positions: Tensor) -> Tensor:
            return table.gather(1, positions.unsqueeze(-1).expand(-1, -1, table.shape[-1]))

        fraction = (1 + at(line, begin) - at(line, end)) * ((last >= 0) & (last < n)).unsqueeze(-1)
        found: Tensor = at(sums, end) - at(sums, begin) + fraction * at(wide, last.clamp(0, n - 1))
        return found.view(values.shape).to(values.dtype)


def _for_kernels(values: Tensor) -> bool:
    return values.dtype is torch.float32 and serves(values)
