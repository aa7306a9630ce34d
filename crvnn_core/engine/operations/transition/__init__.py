"""From decisions to what they do to a step's existence; its C++ comes with neighbourhoods that have some."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import Operation


@Operation
def transition(
    c: Tensor, near: Neighbourhood, exists: Tensor, eligible: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """c where a position is eligible, left(c) where it is a token, and e (1 - c); [B, N] each."""
    c = c * eligible
    left_c = near.left(c) * tokens
    return c, left_c, torch.addcmul(exists, exists, c, value=-1)
