"""Prefix sums over thousands of positions, whose differences need more precision than float32."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


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
