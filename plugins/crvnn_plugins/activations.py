"""Activations by the names that specs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

Activation = Literal["gelu", "gelu-tanh", "relu"]


def activation(name: Activation) -> Callable[[Tensor], Tensor]:
    """GeLU, its tanh approximation (which the authors' classifier code uses), or ReLU."""
    return {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}[name]
