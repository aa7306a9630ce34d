"""What the checks of all slots have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn

from crvnn_core.errors import FAILURES, raised_at
from crvnn_core.host.component import Component

#: Raises if a promise is broken; may return what else there is to say about it.
Check = Callable[[Component], str | None]

WIDTH = 6
LENGTHS = (7, 1, 4)  # of the sequences in the checks' batches: full, alone, padded
TOLERANCE = 1e-5


@frozen
class Outcome:
    """How one check went."""

    check: str
    promise: str
    kept: bool
    reason: str = ""


def promise(check: Check) -> str:
    """What a check makes sure of, in one line."""
    return (check.__doc__ or check.__name__).strip().splitlines()[0]


def run_checks(component: Component, checks: Iterable[Check]) -> Iterator[Outcome]:
    """Put a component through each check in turn."""
    for check in checks:
        try:
            kept, reason = True, check(component) or ""
        except FAILURES as error:  # whatever a component does wrong is a broken promise, and is said
            said = str(error) if isinstance(error, AssertionError) else ""
            kept, reason = False, said or raised_at(error)
        yield Outcome(check.__name__, promise(check), kept, reason)


def build(component: Component, *, seed: int = 0, **available: Any) -> Any:
    """The component with its example arguments, ready to be used in evaluation mode."""
    torch.manual_seed(seed)
    module = component.make({"width": WIDTH, **available}, **component.example)
    return module.eval() if isinstance(module, nn.Module) else module


def random(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def padded(lengths: Iterable[int] = LENGTHS) -> Tensor:
    """A mask [B, n] with tokens on the left."""
    sizes = torch.tensor(list(lengths))
    return torch.arange(int(sizes.max())) < sizes.unsqueeze(1)


def existences(mask: Tensor, seed: int = 2) -> Tensor:
    """Existential probabilities between 0.02 and 0.98, and 0 under padding."""
    chances = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed))
    return (0.02 + 0.96 * chances) * mask


def shaped(values: Tensor, shape: Iterable[int], what: str) -> None:
    """Assert that a tensor has a shape."""
    assert list(values.shape) == list(shape), f"{what}: {list(values.shape)}; expected {list(shape)}"


def same(got: Tensor, want: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Assert that two tensors agree."""
    shaped(got, want.shape, f"{what}: the shapes differ")
    gap = (got - want).abs().max().item() if got.numel() else 0.0
    assert gap <= tolerance, f"{what}: differs by up to {gap:.2g} (allowed: {tolerance:g})"


def finite(values: Tensor | None, what: str) -> None:
    """Assert that there is a tensor, with no NaN or infinity in it."""
    assert values is not None, f"there is no such thing as {what}"
    assert bool(values.isfinite().all()), f"{what} has NaN or infinity in it"


def probabilities(values: Tensor, shape: Iterable[int], absent: Tensor, what: str, where: str) -> None:
    """Assert that a tensor has numbers from 0 to 1, and exactly 0 where ``absent`` says."""
    shaped(values, shape, what)
    finite(values, what)
    low, high = (values.min().item(), values.max().item()) if values.numel() else (0.0, 0.0)
    assert 0 <= low <= high <= 1, f"{what} is between {low:.3g} and {high:.7f}, which is no probability"
    assert not values[..., absent].any(), f"{what} is not 0 {where}"


def gradients_reach(module: nn.Module, loss: Tensor) -> None:
    """Assert that the loss depends on every parameter of the module that is to be trained."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        return
    module.zero_grad()
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in trained.items():
        gradient = parameter.grad
        reached = gradient is not None and bool(gradient.abs().sum() > 0)
        assert reached, f"no gradient reaches the parameter '{name}'"
        finite(gradient, f"the gradient of '{name}'")
