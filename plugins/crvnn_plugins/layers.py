"""Linear layers as the authors start them: Glorot-uniform weights, biases at zero."""

from __future__ import annotations

from torch import nn


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with Glorot-uniform weights and a bias of zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
