"""The interval neighbourhood of Eq. 5, by compiled operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.neighbourhoods import IdentityCache
from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import serves


class CompiledIntervals(Neighbourhood):
    """Neighbours as intervals of the line that existence [B, n] spans (docs/explanation/linear-time.md).

    :param exists: existence, 0 under padding, in float32 on a CPU.
    :param ops: the operators of the library.
    """

    caches = True

    def __init__(self, exists: Tensor, ops: Any) -> None:
        self.ops = ops
        exists = exists.contiguous()
        #: Existence, the runs of whole positions to both sides, and the shares of the positions behind them.
        self.line: tuple[Tensor, Tensor, Tensor] = (exists, *ops.line(exists.detach()))
        self._lefts: IdentityCache[Tensor] = IdentityCache()

    def left(self, values: Tensor) -> Tensor:
        return self._lefts.get(values, lambda v: self._neighbour(v, 0))

    def right(self, values: Tensor) -> Tensor:
        return self._neighbour(values, 1)

    def stacked(self, values: Tensor, reach: int) -> Tensor:
        if not reach or values.dim() != 3 or not _for_kernels(values):
            return super().stacked(values, reach)
        found: Tensor
        found, left = self.ops.window(values.contiguous(), *self.line, reach)
        self._lefts.put(values, left)
        return found

    def scores(self, values: Tensor, reach: int, left_c: Tensor, *layers: Any) -> Tensor:
        """``window_scores`` straight from the values: their windows are made anew in the backward pass."""
        found: Tensor
        found, left = self.ops.interval_scores(
            values.contiguous(), *self.line, reach, left_c.contiguous(), *layers
        )
        self._lefts.put(values, left)
        return found

    def _neighbour(self, values: Tensor, side: int) -> Tensor:
        if not _for_kernels(values):
            return self._with_torch(values, side)
        found: Tensor = self.ops.neighbour(values.contiguous(), *self.line, side)
        return found

    def _with_torch(self, values: Tensor, side: int) -> Tensor:
        """The same for values of another type: the sum over the run, and a share of the position behind it."""
        given, spans, _ = self.line
        wide = (values.unsqueeze(-1) if values.dim() == 2 else values).double()
        exists = given.double().unsqueeze(-1)
        line, sums = (pad(part.cumsum(1), (0, 0, 1, 0)) for part in (exists, exists * wide))
        n = wide.shape[1]
        own, border = torch.arange(n, device=wide.device).expand_as(given), spans[:, side].long()
        begin, end = (border, own) if side == 0 else (own + 1, border)
        behind = border - 1 if side == 0 else border

        def at(table: Tensor, places: Tensor) -> Tensor:
            return table.gather(1, places.unsqueeze(-1).expand(-1, -1, table.shape[-1]))

        share = (1 + at(line, begin) - at(line, end)) * ((behind >= 0) & (behind < n)).unsqueeze(-1)
        found: Tensor = at(sums, end) - at(sums, begin) + share * at(wide, behind.clamp(0, n - 1))
        return found.view(values.shape).to(values.dtype)


def _for_kernels(values: Tensor) -> bool:
    return values.dtype is torch.float32 and serves(values)
