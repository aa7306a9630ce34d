"""Evaluation mode for one call."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

from torch import nn

from crvnn_core.errors import CrvnnError

M = TypeVar("M", bound=nn.Module)


def evaluating(module: M) -> M:
    """The module in evaluation mode: itself if it is, else a shallow copy that shares parameters, buffers and hooks.

    The mode of the module, which other threads may be using, is not changed. As with the replicas of
    ``nn.DataParallel``, attributes that a forward pass assigns to the copy are lost.
    """
    modules = list(module.modules())
    if not any(each.training for each in modules):
        return module
    if bound := [type(each).__name__ for each in modules if _is_bound(each)]:
        raise CrvnnError(
            f"{', '.join(bound)}: forward was compiled or replaced; call eval() on the model first"
        )
    copies: dict[nn.Module, Any] = {each: each.__new__(type(each)) for each in modules}
    for each, copy in copies.items():
        children = {name: child and copies[child] for name, child in each._modules.items()}
        vars(copy).update(vars(each), training=False, _modules=children, _compiled_call_impl=None)
    return copies[module]  # type: ignore[no-any-return]


def _is_bound(module: nn.Module) -> bool:
    """Whether ``forward`` was replaced by one that belongs to a module, whose mode a copy could not change."""
    forward = vars(module).get("forward")
    return not isinstance(getattr(forward, "_torchdynamo_orig_callable", forward), FunctionType | None)
