"""Operations: functions defined by their body in torch, and when the compiled back ends attached to them may run."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

_TENSORS = frozenset((Tensor, nn.Parameter))
_INDICES = frozenset((torch.bool, torch.int64))
_LAYERS = (nn.Linear, nn.LayerNorm)
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
#: Of the thread or task that asks, so that blocks of ``without`` may overlap.
_allowed = ContextVar("_allowed", default=os.environ.get("CRVNN_NATIVE", "1") != "0")
P = ParamSpec("P")
R = TypeVar("R")
#: Takes the arguments of an operation; returns its result, or ``NotImplemented`` where it does not serve.
Backend = Callable[..., Any]


class Operation(Generic[P, R]):
    """A decorator: a function whose body defines it; calling it runs the first back end that serves, else the body.

    Back ends get all arguments by position. ``body`` is the definition itself, for comparison.
    """

    def __init__(self, body: Callable[P, R]) -> None:
        self.body = body
        self.backends: list[Backend] = []
        functools.update_wrapper(self, body)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        given: tuple[Any, ...] = args
        if kwargs:
            bound = inspect.signature(self.body).bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.args
        for backend in self.backends:
            found = backend(*given)
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
        return self.body(*args, **kwargs)

    def __reduce__(self) -> str:
        """Pickled and copied by name, as a function is."""
        return self.body.__qualname__

    def attach(self, backend: Backend) -> Backend:
        """Try ``backend`` before the body, after those that were attached earlier; also a decorator."""
        self.backends.append(backend)
        return backend

    def __repr__(self) -> str:
        return f"<operation {self.body.__module__}.{self.body.__qualname__}, {len(self.backends)} back ends>"


def allowed() -> bool:
    """Whether compiled back ends may be used at all: not with CRVNN_NATIVE=0, nor inside ``without``."""
    return _allowed.get()


@contextlib.contextmanager
def without() -> Iterator[None]:
    """A block in which torch does everything, as with CRVNN_NATIVE=0; in this thread or task alone."""
    before = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(before)


def serves(*arguments: Any) -> bool:
    """Whether compiled code may take these arguments.

    Its tensors are torch's own on a CPU, dense, and of float32, bool or int64; those inside lists are not looked at, so
    an adapter asks again about the first of the weights that it is given in a list. Whatever intercepts or transforms
    torch's operations (autocast, compiling, exporting, tracing, dispatch modes, function transforms, forward-mode
    derivatives) sees the operation's body instead.
    """
    if (
        torch.compiler.is_compiling()  # first: what follows cannot be compiled
        or not _allowed.get()
        or _dispatch_modes()
        or _tracing()
        or _autocasting("cpu")
        or transformed()
    ):
        return False
    for argument in arguments:
        if type(argument) in _TENSORS:
            if not argument.is_cpu:
                return False
            if argument.dtype is torch.float32:
                if argument.layout is not torch.strided or argument.is_neg():
                    return False
            elif argument.dtype not in _INDICES:
                return False
        elif isinstance(argument, Tensor):  # a subclass, which may mean something else by the same call
            return False
    return True


def plain_parameters(*layers: nn.Module) -> list[Tensor] | None:
    """Weight and bias of each of these layers, for an operation to use instead of calling them.

    ``None`` if a layer must be called itself: it has hooks or no bias, or is not one of torch's own (pruned,
    reparametrised, quantised).
    """
    found: list[Tensor] = []
    for layer in layers:
        own = layer.__dict__  # nn.Module's attribute lookup is slow, and this runs in every step
        weight, bias = own["_parameters"].get("weight"), own["_parameters"].get("bias")
        changed = any(own[hooks] for hooks in _HOOKS) or "forward" in own or type(layer) not in _LAYERS
        if changed or weight is None or bias is None:
            return None
        found += (weight, bias)
    return found


def transformed() -> bool:
    """Whether ``torch.func`` or forward-mode derivatives transform operations: no custom backward pass serves then."""
    return bool(_transforms()) or forward_ad._current_level >= 0


_dispatch_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_tracing = torch._C._get_tracing_state
_autocasting = torch.is_autocast_enabled
