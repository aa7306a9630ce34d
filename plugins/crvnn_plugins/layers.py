"""Linear layers with the authors' initialization, and when custom backward passes may be used."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core.precision import autocasting


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and a bias of zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def plainly(inputs: Tensor, weight: Tensor) -> bool:
    """Whether torch's layers must be used, not a custom backward pass: autocast, mixed dtypes, or compilation."""
    mixed = inputs.dtype != weight.dtype or autocasting(inputs.device.type)
    return mixed or torch.compiler.is_compiling()
