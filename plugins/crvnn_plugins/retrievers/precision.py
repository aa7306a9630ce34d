"""Sums over thousands of positions need more digits than float32 has."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def wide(values: Tensor) -> Tensor:
    """The tensor in float64, or in float32 on devices that have nothing wider."""
    return values.float() if values.device.type == "mps" else values.double()


def prefix_sums(values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Sums of the first 0, 1, ..., n entries along dimension 1."""
    return pad(values.cumsum(1, dtype=dtype), (0, 0) * (values.dim() - 2) + (1, 0))


class Runs:
    """Runs of positions, ``begin`` [B, n] up to but without ``end`` [B, n], over sequences of m positions."""

    def __init__(self, begin: Tensor, end: Tensor, m: int) -> None:
        self.begin, self.end = begin, end
        first = torch.arange(len(begin), device=begin.device).unsqueeze(1) * (m + 1)
        self._begin, self._end = (
            begin + first,
            end + first,
        )  # in the prefix sums of all sequences, one after another

    def sums(self, values: Tensor, pairs: bool) -> Tensor:
        """The sum of ``values`` [B, m, d] over each run.

        Each is a difference of two long prefix sums, which loses the digits that they have in front. So they are
        made in float64; or, with ``pairs``, in two float32 parts: one rounded to a grid on which float32 adds
        without error, and the small rest.
        """
        if not pairs:
            return self._differences(prefix_sums(values, torch.float64)).to(values.dtype)
        exact = values.float()
        most = exact.abs().amax((1, 2), keepdim=True) * exact.shape[1]
        grid = torch.exp2(torch.ceil(torch.log2(most.clamp_min(1e-30))) - 23)
        coarse = torch.round(exact / grid) * grid
        parts = [self._differences(prefix_sums(part)) for part in (coarse, exact - coarse)]
        return (parts[0] + parts[1]).to(values.dtype)

    def _differences(self, sums: Tensor) -> Tensor:
        flat = sums.flatten(0, 1)
        return flat[self._end].sub_(flat[self._begin])


def rows(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, i]] for ``values`` [B, m, d] and ``index`` [B, n]."""
    first = torch.arange(len(values), device=values.device).unsqueeze(1) * values.shape[1]
    return values.flatten(0, 1)[index + first]
