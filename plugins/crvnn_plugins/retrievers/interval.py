"""Eq. 5 in linear time: each neighbourhood is an interval of length 1 on a line.

The derivation stands in docs/explanation/linear-time.md.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core import Neighbourhood, Retriever
from crvnn_core.neighbourhoods import apply_to_columns
from crvnn_plugins.retrievers.precision import prefix_sums

#: Steps of the fixed-point line to one unit of existence: float32 probabilities fit exactly down to 2**-16.
_UNIT = 1 << 40


class Adhoc(Retriever):
    """Takes existence from the nearest positions until one whole position has been found (Eq. 5).

    :param accumulate: how long sums are kept exact: in ``float64``, or as ``float32-pairs`` for devices
        that have no float64; ``auto`` chooses by the device.
    """

    def __init__(self, accumulate: Literal["auto", "float64", "float32-pairs"] = "auto") -> None:
        super().__init__()
        self.accumulate = accumulate

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        pairs = (
            exists.device.type == "mps" if self.accumulate == "auto" else self.accumulate == "float32-pairs"
        )
        return (_PairedIntervals if pairs else _Intervals)(exists * mask)


class _Intervals(Neighbourhood):
    """The line with E = prefix sums of e: a position owns (E_{j-1}, E_j], and looks 1 to either side of it."""

    def __init__(self, exists: Tensor) -> None:
        self.exists = exists.double()  # [B, n]
        line = prefix_sums(self.exists)  # E, [B, n + 1]
        keys = line.detach()
        ends, begins = line[:, 1:], line[:, :-1]
        # The position in which the interval to the right ends, n if it never does; and how far into it.
        self.until = torch.searchsorted(keys[:, 1:].contiguous(), keys[:, 1:] + 1, right=True)
        self.into = ends + 1 - line.gather(1, self.until)
        # One more than the position in which the interval to the left begins, 0 if it never does.
        self.since = torch.searchsorted(keys.contiguous(), keys[:, :-1] - 1)
        self.back = line.gather(1, self.since) - begins + 1

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(self._left, values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(self._right, values)

    def _right(self, values: Tensor) -> Tensor:
        v = values.to(self.exists.dtype)
        whole = self._between(v, later=self.until, earlier=None)
        part = self.into.unsqueeze(-1) * _rows(pad(v, (0, 0, 0, 1)), self.until)
        return (whole + part).to(values.dtype)

    def _left(self, values: Tensor) -> Tensor:
        v = values.to(self.exists.dtype)
        whole = self._between(v, later=None, earlier=self.since)
        part = self.back.unsqueeze(-1) * _rows(pad(v, (0, 0, 1, 0)), self.since)
        return (whole + part).to(values.dtype)

    def _between(self, v: Tensor, later: Tensor | None, earlier: Tensor | None) -> Tensor:
        """Sums of e * v from one position up to another; ``None`` stands for the position itself."""
        return _difference(prefix_sums(self.exists.unsqueeze(-1) * v), later, earlier)


class _PairedIntervals(_Intervals):
    """The same without float64.

    The line is kept in exact integers. A sum of products is split into a coarse part, rounded to a grid on
    which float32 adds without error, and a small rest; differences of the two lose nothing that matters.
    """

    def __init__(self, exists: Tensor) -> None:
        self.exists = exists.float()
        fixed = prefix_sums((exists.detach().float() * _UNIT).to(torch.int64))
        soft = prefix_sums(self.exists)  # carries the gradient; its digits are too few for the value
        self.until = torch.searchsorted(fixed[:, 1:].contiguous(), fixed[:, 1:] + _UNIT, right=True)
        self.since = torch.searchsorted(fixed.contiguous(), fixed[:, :-1] - _UNIT)
        self.into = self._exactly(
            fixed[:, 1:] + _UNIT - fixed.gather(1, self.until), soft[:, 1:] - soft.gather(1, self.until)
        )
        self.back = self._exactly(
            fixed.gather(1, self.since) - fixed[:, :-1] + _UNIT, soft.gather(1, self.since) - soft[:, :-1]
        )

    @staticmethod
    def _exactly(fixed: Tensor, gradient: Tensor) -> Tensor:
        return fixed.to(torch.float32) / _UNIT + (gradient - gradient.detach())

    def _between(self, v: Tensor, later: Tensor | None, earlier: Tensor | None) -> Tensor:
        product = self.exists.unsqueeze(-1) * v
        with torch.no_grad():
            most = product.abs().amax((1, 2), keepdim=True) * product.shape[1]
            grid = torch.exp2(torch.ceil(torch.log2(most.clamp_min(1e-30))) - 23)
            coarse = torch.round(product / grid) * grid
        rest = product - coarse
        return _difference(prefix_sums(coarse), later, earlier) + _difference(
            prefix_sums(rest), later, earlier
        )


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, i]] for ``values`` [B, m, d] and ``index`` [B, n]."""
    return values.gather(1, index.unsqueeze(-1).expand(-1, -1, values.shape[2]))


def _difference(sums: Tensor, later: Tensor | None, earlier: Tensor | None) -> Tensor:
    """Up to ``later`` less up to ``earlier``; left out, they are everything before i and everything up to i."""
    upper = sums[:, :-1] if later is None else _rows(sums, later)
    return upper - (sums[:, 1:] if earlier is None else _rows(sums, earlier))
