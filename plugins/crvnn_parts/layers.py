"""What parts share: activations by name, linear layers, and when a custom backward pass may replace torch's layers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core.kernels import transformed
from crvnn_core.precision import autocasting

#: Activations by the names that specs use, in the order of ``Kind`` in activation.h.
Activation = Literal["gelu", "gelu-tanh", "relu"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


def activation(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of that name: GELU, its tanh approximation (as in the authors' classifier), or ReLU."""
    return {"gelu": F.gelu, "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}[name]


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with the authors' initialization: Glorot-uniform weights and a bias of zero."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def needs_torch_layers(inputs: Tensor, weight: Tensor) -> bool:
    """Whether torch's layers must be used, not a custom backward pass.

    So with autocast, mixed dtypes, compilation, and what transforms operations (``torch.func``).
    """
    mixed = inputs.dtype != weight.dtype or autocasting(inputs.device.type)
    return mixed or torch.compiler.is_compiling() or transformed()


def first_derivatives(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A custom backward pass that refuses second derivatives.

    The error of torch's ``once_differentiable`` is not raised by ``torch.autograd.grad``, whose result lacks terms.
    """

    @functools.wraps(backward)
    def checked(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "this custom backward pass has no second derivatives (create_graph=True); "
                "torch.func.grad computes them with torch's own operations"
            )
        return backward(ctx, *gradients)

    return checked
