"""Sums over thousands of positions need more digits than float32 has."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(values: Tensor) -> Tensor:
    """The tensor in float64, or in float32 on devices that have nothing wider."""
    return values.float() if values.device.type == "mps" else values.double()


def prefix_sums(values: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., n entries along dimension 1."""
    return torch.nn.functional.pad(values.cumsum(1), (0, 0) * (values.dim() - 2) + (1, 0))
