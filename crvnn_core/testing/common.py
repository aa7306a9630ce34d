"""What the checks of all slots have in common."""

from __future__ import annotations

import io
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
from crvnn_core.interfaces import Encoder, Encoding, Part
from crvnn_core.trees import Tree
from crvnn_core.trees.levels import levels_of

#: Raises if a promise is broken; may return what else there is to say about it.
Check = Callable[[Component], str | None]

WIDTH = 6
LENGTHS = (7, 1, 4)  # of the sequences in the checks' batches: full, alone, padded
TOLERANCE = 1e-5
CALLS = 50  # after which state that a module keeps between calls should show


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


def partly_gone() -> tuple[Tensor, list[int]]:
    """Existential probabilities [2, 12] of which every third is exactly 0, and the places of the others."""
    exists = 0.02 + 0.96 * random(2, 12, seed=2).sigmoid()
    exists[:, 1::3] = 0
    return exists, [place for place in range(12) if place % 3 != 1]


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


def gradients_are_those_of_the_present_weights(
    make: Callable[[], nn.Module], loss_of: Callable[..., Tensor], *inputs: Tensor
) -> None:
    """Assert that what was computed with earlier weights, and the graphs that hold it, change no gradient.

    The gradients of a module whose weights have changed in place, as an optimizer changes them, are compared with those
    of a new module with the same weights.

    :param loss_of: a number that is computed with a module from the inputs.
    """
    leaves = [value.detach().requires_grad_() for value in inputs]

    def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
        wanted: dict[str, Tensor] = {
            f"'{name}'": p for name, p in module.named_parameters() if p.requires_grad
        }
        wanted |= {f"input {number}": leaf for number, leaf in enumerate(leaves)}
        found = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
        return dict(zip(wanted, found, strict=True))

    module, held = make(), []
    for change in range(3):
        held.append(loss_of(module, *leaves))
        held[-1].backward(retain_graph=True)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for number, weight in enumerate(module.parameters()):
                weight.add_(0.3 * random(weight.numel(), seed=10 * change + number).view_as(weight))
    new = make()
    new.load_state_dict(module.state_dict())
    right = gradients(new, loss_of(new, *leaves))
    held += [loss_of(module, *leaves), loss_of(module, *leaves)]
    for loss in held[:-3:-1]:  # of the two graphs of the present weights, the later one first
        for name, gradient in gradients(module, loss).items():
            allowed = TOLERANCE * max(1.0, right[name].abs().max().item())
            same(
                gradient,
                right[name],
                f"the gradient of {name}, while graphs of earlier weights live,",
                allowed,
            )


def live_settings_exist(component: Component, part: Part) -> None:
    """Assert that every name in ``live_settings`` is a parameter of the component."""
    parameters = component.parameters()
    unknown = [name for name in part.live_settings or () if name not in parameters]
    assert not unknown, (
        f"live_settings has {', '.join(unknown)}; parameters are {', '.join(parameters) or 'none'}"
    )


def saved_and_loaded(module: nn.Module, other: nn.Module) -> None:
    """Copy the weights of one module to another by way of a file."""
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))


def used_and_reloaded(
    component: Component, call: Callable[[Any], Any], calls: int = CALLS
) -> tuple[Any, Any]:
    """A module after some calls in training, and another one with its saved weights; both in evaluation mode."""
    one, two = build(component), build(component, seed=9)
    one.train()
    with torch.no_grad():
        for _ in range(calls):
            call(one)
    saved_and_loaded(one.eval(), two)
    return one, two


#: What is wrong when a module and its saved and loaded copy differ.
UNSAVED = "with its saved weights a copy gives other results, so it keeps state that is not saved (use register_buffer)"


def same_on_every_call(call: Callable[[], Tensor], calls: int = CALLS) -> None:
    """Assert that a function gives the same bits, however often it is called."""
    first = call()
    for number in range(2, calls + 2):
        what = (
            f"call {number} with the same input, so it is random in evaluation or keeps state between calls"
        )
        same(call(), first, what, 0)


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
