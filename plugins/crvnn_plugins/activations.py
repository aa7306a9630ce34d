"""Activations by the names that specs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

Activation = Literal["gelu", "gelu-tanh", "relu"]


def activation(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of that name: GELU, its tanh approximation (as in the authors' classifier), or ReLU."""
    return {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}[name]


def backward(name: Activation, gradient: Tensor, inputs: Tensor) -> Tensor:
    """The gradient with respect to the inputs of an activation, for custom backward passes."""
    found: Tensor
    if name == "relu":
        found = torch.ops.aten.threshold_backward(gradient, inputs, 0)
    else:
        approximate = "tanh" if name == "gelu-tanh" else "none"
        found = torch.ops.aten.gelu_backward(gradient, inputs, approximate=approximate)
    return found
