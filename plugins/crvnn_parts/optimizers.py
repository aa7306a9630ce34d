"""Optimizers, with the paper's settings as defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from torch import optim
from torch.nn import Parameter

from crvnn_core.annotations import Count, Positive, Range, Weight, check_ranges


@check_ranges
def ranger(
    params: Iterable[Parameter],
    learning_rate: Positive = 1e-3,
    weight_decay: Weight = 1e-2,
    k: Count = 5,
    alpha: Annotated[float, Range(gt=0, le=1)] = 0.8,
) -> optim.Optimizer:
    """RAdam wrapped in Lookahead: every k steps the slow weights move the fraction alpha towards the fast weights.

    :param learning_rate: of RAdam.
    :param weight_decay: decoupled from the gradient.
    :param k: steps between two updates of the slow weights.
    :param alpha: the step size of the slow weights.
    """
    from pytorch_optimizer import Lookahead

    inner = radam(params, learning_rate=learning_rate, weight_decay=weight_decay)
    wrapped: optim.Optimizer = Lookahead(inner, k=k, alpha=alpha)
    return wrapped


@check_ranges
def radam(
    params: Iterable[Parameter], learning_rate: Positive = 1e-3, weight_decay: Weight = 1e-2
) -> optim.Optimizer:
    """Rectified Adam.

    :param learning_rate: the step size.
    :param weight_decay: decoupled from the gradient.
    """
    return optim.RAdam(params, lr=learning_rate, weight_decay=weight_decay, decoupled_weight_decay=True)


@check_ranges
def adamw(
    params: Iterable[Parameter], learning_rate: Positive = 1e-3, weight_decay: Weight = 1e-2
) -> optim.Optimizer:
    """Adam with decoupled weight decay.

    :param learning_rate: the step size.
    :param weight_decay: decoupled from the gradient.
    """
    return optim.AdamW(params, lr=learning_rate, weight_decay=weight_decay)
