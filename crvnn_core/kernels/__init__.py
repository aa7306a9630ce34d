"""Kernels in C++ for what every step of the recursion does on a CPU in float32.

They are compiled on the user's machine (``crvnn native --build``) and used wherever ``ready`` says so. Everywhere else,
and where there is no compiler, the same is done by torch: each kernel has a twin in Python beside which it is tested.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from crvnn_core.kernels.building import library_path

#: Activations, in the order of ``Kind`` in activation.h.
KINDS = ("gelu", "gelu-tanh", "relu")
#: How neighbours hold each other back, in the order of ``Form`` in scoring.h.
FORMS = ("paper", "reference")

_PLAIN = (Tensor, nn.Parameter)
_LAYERS = (nn.Linear, nn.LayerNorm)
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_allowed = os.environ.get("CRVNN_NATIVE", "1") != "0"


class Kernels:
    """The operators of library.cpp, looked up once."""

    def __init__(self) -> None:
        found = torch.ops.crvnn
        self.enter: Any = found.enter.default
        self.leave: Any = found.leave.default
        self.line: Any = found.line.default
        self.neighbour: Any = found.neighbour.default
        self.window: Any = found.window.default
        self.modulated: Any = found.modulated.default
        self.scored: Any = found.scored.default
        self.scored_along: Any = found.scored_along.default
        self.gated: Any = found.gated.default
        self.advance: Any = found.advance.default
        self.blend: Any = found.blend.default
        self.join: Any = found.join.default
        self.pick: Any = found.pick.default
        self.narrow: Any = found.narrow.default
        self.survey: Any = found.survey.default
        self.changing: Any = found.changing.default


@cache
def kernels() -> Kernels | None:
    """The kernels, if they have been built for this torch and this processor."""
    try:
        path = library_path()
        if not path.exists():
            return None
    except (OSError, RuntimeError):  # no home, or somebody else's
        return None
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
        return Kernels()
    except (OSError, RuntimeError, AttributeError) as error:  # a damaged file: --build makes it anew
        warnings.warn(f"the native kernels cannot be loaded, so torch does the work: {error}", stacklevel=2)
        return None


def allowed() -> bool:
    """Whether kernels may be used at all: not with CRVNN_NATIVE=0, nor inside ``without``."""
    return _allowed


def ready(*tensors: Tensor) -> Kernels | None:
    """The kernels, if they are there and these tensors are for them.

    They take plain float32 tensors on a CPU. Whatever looks at or changes what torch does (autocast, compiling,
    exporting, tracing, counting operations, function transforms, derivatives in forward mode) finds torch's own
    operations.
    """
    if not _allowed or torch.compiler.is_compiling() or _watched():
        return None
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or type(tensor) not in _PLAIN or not tensor.is_cpu:
            return None
        if tensor.layout is not torch.strided or tensor.is_neg():
            return None
    return kernels()


def as_made(*layers: nn.Module) -> list[Tensor] | None:
    """Weight and bias of each of these layers, if they are torch's own and do what they always do.

    That is, nobody has put a hook on them, or another kind in their place (pruning, weight norm, quantisation).
    """
    found: list[Tensor] = []
    for layer in layers:
        own = layer.__dict__  # attributes of modules take long, and this is asked in every step
        weight, bias = own["_parameters"].get("weight"), own["_parameters"].get("bias")
        changed = any(own[hooks] for hooks in _HOOKS) or "forward" in own or type(layer) not in _LAYERS
        if changed or weight is None or bias is None:
            return None
        found += (weight, bias)
    return found


def _watched() -> bool:
    return bool(
        _dispatch_modes()
        or _transforms()
        or _tracing()
        or _autocasting("cpu")
        or forward_ad._current_level >= 0
    )


_dispatch_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_tracing = torch._C._get_tracing_state
_autocasting = torch.is_autocast_enabled


@contextlib.contextmanager
def recursion(*tensors: Tensor) -> Iterator[None]:
    """A block in which no weights change, so that kernels may keep what they make of them."""
    found = ready(*tensors)
    if found is None:
        yield
        return
    try:
        found.enter()
        yield
    finally:
        found.leave()


@contextlib.contextmanager
def without() -> Iterator[None]:
    """A block in which torch does everything, as with CRVNN_NATIVE=0."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before
