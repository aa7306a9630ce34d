"""The intervals of Eq. 5 with torch, in linear time: differences of prefix sums."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crvnn_core import Neighbourhood
from crvnn_core.engine.neighbourhoods import IdentityCache
from crvnn_parts.layers import first_derivatives
from crvnn_parts.operations.intervals.run_sums import (
    BlockSums,
    Runs,
    Segments,
    block_weights,
    first_rows,
    prefix_sums,
    unit_weights,
)

#: One in fixed point: float32 probabilities of at least 2**-16 are represented exactly.
_UNIT = 1 << 40


class LinearIntervals(Neighbourhood):
    """With E the prefix sums of e, position j covers (E_j, E_{j+1}]; its neighbours lie within 1 on either side."""

    def __init__(self, exists: Tensor, pairs: bool) -> None:
        self.exists, self.pairs = exists, pairs
        self._sums: IdentityCache[BlockSums] = IdentityCache()
        self._bags: dict[int, tuple[Tensor, Tensor]] = {}
        with torch.no_grad():
            self._sides = _sides(exists, pairs)
        self._shares = [_share(exists, side) for side in self._sides]

    def left(self, values: Tensor) -> Tensor:
        return self._integral(values, 0)

    def right(self, values: Tensor) -> Tensor:
        return self._integral(values, 1)

    def _integral(self, values: Tensor, which: int) -> Tensor:
        side, share = self._sides[which], self._shares[which]
        if values.dim() == 2:
            return _integrate(_Numbers, values, self.exists, share, side)
        if which not in self._bags:  # not in _Side, which the graph holds until the backward pass
            self._bags[which] = Runs(side.run.begin, side.run.end, self.pairs).bags_with(side.at, side.share)
        return _integrate(
            _Vectors, values, self.exists, share, side, self._sums_of(values), self._bags[which]
        )

    @torch.no_grad()
    def _sums_of(self, values: Tensor) -> BlockSums:
        """The prefix sums of e * v, computed once for both sides."""
        return self._sums.get(values, lambda v: BlockSums(v, self._weights.to(v.dtype), self.pairs))

    @cached_property
    def _weights(self) -> Tensor:
        return block_weights(self.exists.detach())


def _sides(exists: Tensor, pairs: bool) -> tuple[_Side, _Side]:
    """The intervals of length 1 to the left and to the right of every position."""
    n = exists.shape[1]
    keys, unit = (_fixed_point(exists), _UNIT) if pairs else (prefix_sums(exists.double()), 1)
    own = torch.arange(n, device=exists.device).expand_as(exists)
    # The position in which the right interval ends; n if it ends beyond the sequence.
    until = torch.searchsorted(keys[:, 1:].contiguous(), keys[:, 1:] + unit, right=True)
    # One more than the position in which the left interval ends; 0 if it ends beyond the sequence.
    since = torch.searchsorted(keys, keys[:, :-1] - unit)

    def length(begin: Tensor, end: Tensor) -> Tensor:
        """1 minus the existence in the run: 1 + E_begin - E_end [B, n]."""
        exact = keys.gather(1, begin) - keys.gather(1, end) + unit
        return exact.to(exists.dtype) / unit

    into = length(own + 1, until) * (until < n)
    back = length(since, own) * (since > 0)
    return (
        _Side(Runs(since, own, pairs), (since - 1).clamp(min=0), back, since > 0),
        _Side(Runs(own + 1, until, pairs), until.clamp(max=n - 1), into, until < n),
    )


def _fixed_point(exists: Tensor) -> Tensor:
    """Prefix sums of e as exact 64-bit integers, for devices without float64."""
    return prefix_sums((exists.float() * _UNIT).to(torch.int64))


class _Side:
    """The intervals to one side: for each position a run of whole positions, and the ``share`` [B, n] of the position
    ``at`` [B, n] in which the interval ends (``any_share``: unless that is beyond the sequence)."""

    def __init__(self, run: Runs, at: Tensor, share: Tensor, any_share: Tensor) -> None:
        self.run, self.at, self.share, self.any_share = run, at, share, any_share

    @cached_property
    def transposed(self) -> Runs:
        """For each position, the positions whose runs contain it.

        Begins and ends of runs are monotone, so these positions are again a run.
        """
        own = torch.arange(self.at.shape[1], device=self.at.device).expand_as(self.at).contiguous()
        begin = torch.searchsorted(self.run.end.contiguous(), own, right=True)
        end = torch.searchsorted(self.run.begin.contiguous(), own, right=True)
        return Runs(begin, end, self.run.pairs)

    @cached_property
    def pointing(self) -> Segments:
        """For each position, the positions whose intervals end in it."""
        return Segments(self.at)

    @cached_property
    def flat(self) -> Tensor:
        """``at`` as row indices into [B * n, d]."""
        return (self.at + first_rows(self.at, self.at.shape[1])).flatten()


def _share(exists: Tensor, side: _Side) -> Tensor:
    share: Tensor = _Share.apply(exists, side)  # type: ignore[no-untyped-call]
    return share


def _integrate(kind: type[torch.autograd.Function], *arguments: object) -> Tensor:
    found: Tensor = kind.apply(*arguments)  # type: ignore[no-untyped-call]
    return found


class _Share(torch.autograd.Function):
    """The share as a function of existence: 1 minus the existence in the run."""

    @staticmethod
    def forward(ctx: Any, exists: Tensor, side: _Side) -> Tensor:
        ctx.side = side
        return side.share.clone()

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return -ctx.side.transposed.of_numbers(gradient * ctx.side.any_share), None


class _Numbers(torch.autograd.Function):
    """The sum of e * v over the run plus share * v at its end, for v [B, n]."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exists: Tensor, share: Tensor, side: _Side) -> Tensor:
        ctx.save_for_backward(values, exists, share)
        ctx.side = side
        whole = side.run.of_numbers(exists.to(values.dtype) * values)
        return whole.addcmul_(share.to(values.dtype), values.gather(1, side.at))

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, exists, share = ctx.saved_tensors
        of_product = ctx.side.transposed.of_numbers(gradient)
        of_values = of_product * exists.to(values.dtype)
        of_values.scatter_add_(1, ctx.side.at, share.to(values.dtype) * gradient)
        of_share = values.gather(1, ctx.side.at) * gradient
        return of_values, (of_product * values).to(exists.dtype), of_share.to(share.dtype), None


class _Vectors(torch.autograd.Function):
    """The same for v [B, n, d]. Saves only the inputs; the backward pass is again sums over runs."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        exists: Tensor,
        share: Tensor,
        side: _Side,
        sums: BlockSums,
        bags: tuple[Tensor, Tensor],
    ) -> Tensor:
        ctx.save_for_backward(values, exists, share)
        ctx.side = side
        return sums.over(bags)

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, exists, share = ctx.saved_tensors
        side: _Side = ctx.side
        gradient = gradient.contiguous()  # embedding_bag is slow on strided rows, as of a slice of a window
        sums = BlockSums(gradient, unit_weights(gradient), side.run.pairs)
        of_product = sums.over(side.transposed.bags)
        of_values = side.pointing.sums(gradient, share)
        of_values.addcmul_(of_product, exists.unsqueeze(-1).to(values.dtype))
        of_exists = of_product.mul_(values).sum(-1)
        at_end = values.reshape(-1, values.shape[-1]).index_select(0, side.flat).view(values.shape)
        of_share = at_end.mul_(gradient).sum(-1)
        return of_values, of_exists.to(exists.dtype), of_share.to(share.dtype), None, None, None
