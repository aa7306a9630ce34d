"""What the checks of all slots have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from crvnn_core.errors import FAILURES, raised_at
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Encoder, Encoding
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of

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
            note = check(component)
        except AssertionError as error:
            yield Outcome(check.__name__, promise(check), False, str(error) or raised_at(error))
        except FAILURES as error:  # whatever a component does wrong is a broken promise, and is said
            yield Outcome(check.__name__, promise(check), False, raised_at(error))
        else:
            yield Outcome(check.__name__, promise(check), True, note or "")


def build(component: Component, *, seed: int = 0, **available: Any) -> Any:
    """The component with its example arguments, ready to be used in evaluation mode."""
    torch.manual_seed(seed)
    module = component.make({"width": WIDTH, **available}, **component.example)
    if isinstance(module, Encoder) and module.needs_trees:
        module.forward = partial(_along_random_trees, module.forward)  # type: ignore[method-assign]
    return module.eval() if isinstance(module, nn.Module) else module


def random(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def padded(lengths: Iterable[int] = LENGTHS) -> Tensor:
    """A mask [B, n] with tokens on the left."""
    sizes = torch.tensor(list(lengths))
    return torch.arange(int(sizes.max())) < sizes.unsqueeze(1)


def _along_random_trees(
    forward: Callable[..., Encoding], inputs: Tensor, mask: Tensor, **options: Any
) -> Encoding:
    """Encode along random trees, which depend on the length of a sequence alone: it has the same in every batch."""
    if mask.is_meta:  # shapes only
        return forward(inputs, mask, levels=torch.zeros_like(mask, dtype=torch.long), **options)
    one = mask.clone()
    one[:, 0] = True  # an empty sequence, which an encoder refuses, has no tree
    trees = []
    for length in one.sum(1).tolist():
        order = torch.randperm(length - 1, generator=torch.Generator().manual_seed(length))
        trees.append(Tree.joining(["token"] * length, order.tolist()))
    return forward(inputs, mask, levels=levels_of(trees, one), **options)


def existences(mask: Tensor, seed: int = 2) -> Tensor:
    """Existential probabilities between 0.02 and 0.98, and 0 under padding."""
    chances = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed))
    return (0.02 + 0.96 * chances) * mask


def same(got: Tensor, want: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Assert that two tensors agree."""
    assert got.shape == want.shape, f"{what}: the shapes {list(got.shape)} and {list(want.shape)} differ"
    gap = (got - want).abs().max().item() if got.numel() else 0.0
    assert gap <= tolerance, f"{what}: differs by up to {gap:.2g} (allowed: {tolerance:g})"


def finite(values: Tensor | None, what: str) -> None:
    """Assert that there is a tensor, with no NaN or infinity in it."""
    assert values is not None, f"there is no such thing as {what}"
    assert bool(values.isfinite().all()), f"{what} has NaN or infinity in it"


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


class _OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses operations on tensors of several devices, which meta tensors by themselves often let pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor) and t.dim() > 0]
        devices = {str(tensor.device) for tensor in tensors}
        if len(devices) > 1:
            raise RuntimeError(f"{func} was given tensors on {' and '.join(sorted(devices))}")
        return func(*args, **(kwargs or {}))


@contextmanager
def no_stray_tensors() -> Iterator[None]:
    """Say in plain words what a tensor made on the wrong device does."""
    try:
        with _OneDevice():  # type: ignore[no-untyped-call]
            yield
    except (RuntimeError, NotImplementedError) as error:
        raise AssertionError(
            "fails on the meta device, so it makes a tensor on a device of its own or looks at values: "
            f"{raised_at(error)}"
        ) from error


@contextmanager
def half_precision() -> Iterator[None]:
    """Autocast to bfloat16 on the CPU."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield
