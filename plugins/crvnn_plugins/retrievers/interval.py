"""Eq. 5 in linear time: each neighbourhood is an interval of length 1 on a line.

The derivation stands in docs/explanation/linear-time.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from crvnn_core import Neighbourhood, Retriever
from crvnn_core.neighbourhoods import apply_to_columns
from crvnn_plugins.retrievers.precision import Runs, prefix_sums, rows

#: Steps of the fixed-point line to one unit of existence: float32 probabilities fit exactly down to 2**-16.
_UNIT = 1 << 40


class Adhoc(Retriever):
    """Takes existence from the nearest positions until one whole position has been found (Eq. 5).

    :param accumulate: how long sums are kept exact: in ``float64``, or as ``float32-pairs`` for devices
        that have no float64; ``auto`` chooses by the device.
    """

    def __init__(self, accumulate: Literal["auto", "float64", "float32-pairs"] = "auto") -> None:
        super().__init__()
        if accumulate not in ("auto", "float64", "float32-pairs"):
            raise ValueError(f"accumulate must be 'auto', 'float64' or 'float32-pairs', not {accumulate!r}")
        self.accumulate = accumulate

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        auto = exists.device.type == "mps"
        pairs = auto if self.accumulate == "auto" else self.accumulate == "float32-pairs"
        return _Intervals(exists * mask, pairs)


class _Intervals(Neighbourhood):
    """The line with E = prefix sums of e. Position j owns (E_j, E_{j+1}], and looks 1 to either side of it."""

    def __init__(self, exists: Tensor, pairs: bool) -> None:
        n = exists.shape[1]
        keys, unit = (_fixed_point(exists), _UNIT) if pairs else (prefix_sums(exists.detach().double()), 1)
        line = prefix_sums(exists if pairs else exists.double())  # [B, n + 1]
        own = torch.arange(n, device=exists.device).expand_as(exists)
        # The position in which the interval to the right ends, n if it never does.
        until = torch.searchsorted(keys[:, 1:].contiguous(), keys[:, 1:] + unit, right=True)
        into = _length(keys, unit, line, own + 1, until) * (until < n)
        self.to_right = _Side(exists, own + 1, until, until.clamp(max=n - 1), into, pairs)
        # One more than the position in which the interval to the left begins, 0 if it never does.
        since = torch.searchsorted(keys.contiguous(), keys[:, :-1] - unit)
        back = _length(keys, unit, line, since, own) * (since > 0)
        self.to_left = _Side(exists, since, own, (since - 1).clamp(min=0), back, pairs)

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(self.to_left.integral, values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(self.to_right.integral, values)


def _fixed_point(exists: Tensor) -> Tensor:
    """The line in exact integers, for devices without float64."""
    return prefix_sums((exists.detach().float() * _UNIT).to(torch.int64))


def _length(keys: Tensor, unit: int, line: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """1 + E_begin - E_end [B, n]: its value from the exact ``keys``, its gradient from the ``line``."""
    exact = (keys.gather(1, begin) - keys.gather(1, end) + unit).to(line.dtype) / unit
    gradient = line.gather(1, begin) - line.gather(1, end)
    return exact + (gradient - gradient.detach())


class _Side:
    """What every position sees to one side: a run of whole positions, and a share of the one behind it."""

    def __init__(
        self, exists: Tensor, begin: Tensor, end: Tensor, at: Tensor, share: Tensor, pairs: bool
    ) -> None:
        self.exists, self.share, self.pairs = exists, share, pairs
        self.run, self.at = Runs(begin, end, exists.shape[1]), at

    def integral(self, values: Tensor) -> Tensor:
        """The sum of e * v over the run, and the share of v."""
        result: Tensor = _Integral.apply(values, self.exists, self.share, self)  # type: ignore[no-untyped-call]
        return result

    @cached_property
    def transposed(self) -> tuple[Runs, Runs]:
        """For each position, who has it in his run, and who has a share of it.

        Runs begin and end in order, so those that contain a position are themselves a run.
        """
        n = self.at.shape[1]
        own = torch.arange(n, device=self.at.device).expand_as(self.at).contiguous()
        whole = Runs(_count(self.run.end, own), _count(self.run.begin, own), n)
        return whole, Runs(_count(self.at, own - 1), _count(self.at, own), n)


def _count(ordered: Tensor, limit: Tensor) -> Tensor:
    """How many of ``ordered`` [B, n] are at most ``limit`` [B, n]."""
    return torch.searchsorted(ordered.contiguous(), limit, right=True)


class _Integral(torch.autograd.Function):
    """The integral over one side. Only its input is kept, and its backward pass is made of sums over runs again."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exists: Tensor, share: Tensor, side: _Side) -> Tensor:
        ctx.save_for_backward(values, exists, share)
        ctx.side = side
        whole = side.run.sums(exists.unsqueeze(-1).to(values.dtype) * values, side.pairs)
        return whole.add_(share.unsqueeze(-1).to(values.dtype) * rows(values, side.at))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, exists, share = ctx.saved_tensors
        whole, shared = ctx.side.transposed
        of_product = whole.sums(gradient, ctx.side.pairs)
        of_values = shared.sums(share.unsqueeze(-1).to(values.dtype) * gradient, ctx.side.pairs)
        of_values = of_values.add_(exists.unsqueeze(-1).to(values.dtype) * of_product)
        of_exists = (values * of_product).sum(-1).to(exists.dtype)
        of_share = (rows(values, ctx.side.at) * gradient).sum(-1).to(share.dtype)
        return of_values, of_exists, of_share, None
