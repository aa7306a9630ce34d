"""The contract of optimizers."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from crvnn_core.host.component import Component
from crvnn_core.testing.common import build, finite, random


def _problem(component: Component) -> tuple[nn.Linear, Optimizer]:
    torch.manual_seed(0)
    layer = nn.Linear(4, 1)
    return layer, build(component, params=list(layer.parameters()))


def _loss(layer: nn.Linear) -> Tensor:
    inputs = random(16, 4)
    return nn.functional.mse_loss(layer(inputs), inputs.sum(1, keepdim=True))


def _steps(layer: nn.Linear, optimizer: Optimizer, number: int) -> None:
    for _ in range(number):
        optimizer.zero_grad()
        _loss(layer).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def check_optimizer_is_an_optimizer(component: Component) -> None:
    """It is a torch.optim.Optimizer over the parameters it was given, and its groups have a learning rate."""
    layer, optimizer = _problem(component)
    assert isinstance(optimizer, Optimizer), f"{type(optimizer).__name__} is not a torch.optim.Optimizer"
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in layer.parameters()}, "it does not hold the parameters it was given"
    assert all("lr" in group for group in optimizer.param_groups), "a parameter group has no 'lr'"


def check_optimizer_makes_the_loss_fall(component: Component) -> None:
    """Two hundred steps on a linear problem bring the loss down."""
    layer, optimizer = _problem(component)
    before = _loss(layer).item()
    _steps(layer, optimizer, 200)
    after = _loss(layer).item()
    assert after < before, f"the loss went from {before:.4g} to {after:.4g}"
    for parameter in layer.parameters():
        finite(parameter, "a parameter")


def check_optimizer_is_deterministic(component: Component) -> None:
    """Two runs from the same start give the same bits."""
    weights = []
    for _ in range(2):
        layer, optimizer = _problem(component)
        _steps(layer, optimizer, 12)
        weights.append(layer.weight.detach().clone())
    assert torch.equal(*weights), "two equal runs differ"


def check_optimizer_can_be_saved(component: Component) -> None:
    """Stopping, saving, loading and going on gives the same bits as never stopping."""
    layer, optimizer = _problem(component)
    _steps(layer, optimizer, 7)
    saved = copy.deepcopy(layer.state_dict()), copy.deepcopy(optimizer.state_dict())
    _steps(layer, optimizer, 8)
    resumed, other = _problem(component)
    resumed.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    _steps(resumed, other, 8)
    assert torch.equal(layer.weight, resumed.weight), "resuming from a saved state gives other weights"
