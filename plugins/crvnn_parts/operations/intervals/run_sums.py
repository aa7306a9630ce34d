"""Sums over runs of consecutive positions, batched: each is a difference of two prefix sums.

Over thousands of positions such differences need more precision than float32.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

#: Positions in a block. Prefix sums inside blocks are a batched product with a triangular matrix, which is many times
#: faster than a cumulative sum; only the sums of whole blocks need more precision than float32.
BLOCK = 16


class Runs:
    """For each of n positions the run ``begin`` [B, n] up to, not including, ``end`` [B, n].

    :param pairs: without float64, see ``exact_prefix_sums``.
    """

    def __init__(self, begin: Tensor, end: Tensor, pairs: bool) -> None:
        self.begin, self.end, self.pairs = begin, end, pairs

    def of_numbers(self, values: Tensor) -> Tensor:
        """The sum of ``values`` [B, n] over each run."""
        if not self.pairs:
            sums = [prefix_sums(band.double()) for band in _bands(values)]
            found = [each.gather(1, self.end) - each.gather(1, self.begin) for each in sums]
            return torch.stack(found).sum(0).to(values.dtype)
        high, low = exact_prefix_sums(values, pairs=True).unbind()
        small = low.gather(1, self.end) - low.gather(1, self.begin)
        return small + (high.gather(1, self.end) - high.gather(1, self.begin))

    @cached_property
    def bags(self) -> tuple[Tensor, Tensor]:
        """Row indices of ``BlockSums.table`` and weights [B, n, 6] whose weighted sum is the sum over each run."""
        batch, n = self.begin.shape
        blocks = _padded(n) // BLOCK
        ends = torch.stack([self.end, self.begin], -1)  # [B, n, 2]
        block = ends // BLOCK + first_rows(self.begin, blocks).unsqueeze(-1)
        high = block + batch * blocks * (2 * BLOCK + 1)
        inside = block * (BLOCK + 1) + ends % BLOCK
        # The high parts first: their difference is exact, and the rest is small.
        rows = torch.cat([high, high + batch * blocks, inside], -1)
        signs = 1.0 - 2.0 * (
            torch.arange(rows.shape[-1], device=rows.device) % 2
        )  # created on the device: no host synchronisation
        return rows, signs.expand(rows.shape)

    def bags_with(self, at: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """The same plus ``share`` [B, n] times the vector at position ``at`` [B, n]: [B, n, 7]."""
        rows, weights = self.bags
        batch, n = at.shape
        own = at + (first_rows(at, _padded(n)) + batch * _padded(n) // BLOCK * (BLOCK + 1))
        return (
            torch.cat([rows, own.unsqueeze(-1)], -1),
            torch.cat([weights.to(share.dtype), share.unsqueeze(-1)], -1),
        )


def _bands(values: Tensor) -> list[Tensor]:
    """Values [B, n] split by magnitude into tensors that sum to them, each 0 where another has the value.

    Within a tensor magnitudes differ by at most some 1e8. So a difference of two float64 prefix sums is precise to
    float32, whatever large value precedes it.
    """
    size = torch.frexp(values.detach()).exponent
    below = (size.amax(1, keepdim=True) - size) // 27
    return [values.where(below == band, 0) for band in range(4)] + [values.where(below > 3, 0)]


class BlockSums:
    """Prefix sums of ``weights * values`` for values [B, n, d], stored block by block in one table of rows.

    The table has, for every block, the sums from its beginning to each of its positions and to its end; then the
    values themselves; then the high and the low part of the sums of all blocks before it.

    :param weights: from ``block_weights``.
    """

    def __init__(self, values: Tensor, weights: Tensor, pairs: bool) -> None:
        batch, n, d = values.shape
        size = _padded(n)
        blocks = batch * size // BLOCK
        self.table = values.new_empty(blocks * (2 * BLOCK + 3), d)
        inside, own, before = torch.split(self.table, [blocks * (BLOCK + 1), blocks * BLOCK, 2 * blocks])
        padded = own.view(batch, size, d)
        padded[:, :n] = values
        padded[:, n:] = 0
        sums = inside.view(blocks, BLOCK + 1, d)
        torch.bmm(weights, own.view(blocks, BLOCK, d), out=sums)
        exact_prefix_sums(sums[:, BLOCK].view(batch, -1, d), pairs, out=before.view(2, batch, -1, d))

    def over(self, bags: tuple[Tensor, Tensor]) -> Tensor:
        """Weighted sums of rows of the table [B, n, d]."""
        rows, weights = bags
        weights = weights.to(self.table.dtype).flatten(0, 1)
        found = embedding_bag(rows.flatten(0, 1), self.table, mode="sum", per_sample_weights=weights)
        return found.view(*rows.shape[:2], -1)


def block_weights(weights: Tensor) -> Tensor:
    """Triangular matrices [blocks, BLOCK + 1, BLOCK] whose product with values is prefix sums of weights * values."""
    n = weights.shape[1]
    padded = pad(weights, (0, _padded(n) - n)).view(-1, 1, BLOCK)
    return padded * torch.ones(BLOCK + 1, BLOCK, dtype=weights.dtype, device=weights.device).tril(-1)


def unit_weights(like: Tensor) -> Tensor:
    """``block_weights`` of ones, for values [B, n, d]."""
    batch, n = like.shape[:2]
    ones = torch.ones(BLOCK + 1, BLOCK, dtype=like.dtype, device=like.device).tril(-1)
    return ones.expand(batch * _padded(n) // BLOCK, -1, -1)


class Segments:
    """For each position j the positions i with ``at[i] == j``; ``at`` [B, n] is sorted in every sequence."""

    def __init__(self, at: Tensor) -> None:
        batch, n = at.shape
        own = torch.arange(n, device=at.device).expand_as(at).contiguous()
        self.offsets = (torch.searchsorted(at.contiguous(), own) + first_rows(at, n)).flatten()
        self.rows = torch.arange(batch * n, device=at.device)

    def sums(self, values: Tensor, weights: Tensor) -> Tensor:
        """The sum of ``weights * values`` [B, n, d] over these positions."""
        flat, weights = values.reshape(-1, values.shape[-1]), weights.to(values.dtype).flatten()
        found = embedding_bag(self.rows, flat, self.offsets, mode="sum", per_sample_weights=weights)
        return found.view(values.shape)


def first_rows(like: Tensor, size: int) -> Tensor:
    """The row index of the first position of each of B sequences, ``size`` rows each [B, 1]."""
    return torch.arange(0, len(like) * size, size, device=like.device).unsqueeze(1)


def _padded(n: int) -> int:
    """n + 1 prefix sums, rounded up to whole blocks."""
    return (n // BLOCK + 1) * BLOCK


def prefix_sums(values: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., n entries along dimension 1."""
    return pad(values.cumsum(1), (0, 0) * (values.dim() - 2) + (1, 0))


def exact_prefix_sums(values: Tensor, pairs: bool, out: Tensor | None = None) -> Tensor:
    """Sums of the first 0, 1, ..., n entries along dimension 1 in two parts, whose differences are precise.

    They are summed in float64 and split into a high and a low part of the dtype of ``values``; or, with ``pairs``,
    summed as two float32 parts: values rounded to a grid on which float32 addition is exact, and the remainders.

    :param out: a buffer [2, B, n, ...], for the sums of the first 0, 1, ..., n - 1 entries only.
    """
    if not pairs:
        sums = prefix_sums(values.double()) if out is None else _exclusive(values.double())
        out = torch.empty(2, *sums.shape, dtype=values.dtype, device=values.device) if out is None else out
        out[0] = sums
        out[1] = sums.sub_(out[0])
        return out
    exact = values.float()
    most = exact.abs().amax(list(range(1, exact.dim())), keepdim=True) * exact.shape[1]
    grid = torch.exp2(torch.ceil(torch.log2(most.clamp_min(1e-30))) - 23)
    rounded = torch.round(exact / grid) * grid
    parts = torch.stack([rounded, exact - rounded])
    if out is None:
        return torch.stack([prefix_sums(part) for part in parts]).to(values.dtype)
    out[0], out[1] = _exclusive(parts[0]), _exclusive(parts[1])
    return out


def _exclusive(values: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., n - 1 entries along dimension 1."""
    return pad(values[:, :-1].cumsum(1), (0, 0) * (values.dim() - 2) + (1, 0))
