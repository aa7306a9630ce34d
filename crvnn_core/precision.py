"""Autocast, and where it must not reach."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def at_least_float32(values: Tensor) -> Tensor:
    """The tensor in float32, or in its own type if that is wider."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def wide(values: Tensor) -> Tensor:
    """The tensor in float64, or in float32 on devices that have nothing wider."""
    return values.float() if values.device.type == "mps" else values.double()


def autocasting(device: str) -> bool:
    """Whether autocast is at work on a kind of device; some kinds do not have it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def full_precision(device: str) -> AbstractContextManager[Any]:
    """A block in which autocast, where there is any, does nothing."""
    return torch.autocast(device, enabled=False) if autocasting(device) else nullcontext()
