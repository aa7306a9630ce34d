"""A lower bound on the time of a training step: its matrix products alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from crvnn_core import Batch, Model
from crvnn_core.kernels import without

#: What it is called beside the contenders.
PRODUCTS = "products"
#: A product [m, k] times [k, n]: m positions, k input features, n output features.
Shape = tuple[int, int, int]
#: The index of the first of the two matrices among the arguments.
_FIRST_MATRIX = {torch.ops.aten.mm: 0, torch.ops.aten.addmm: 1, torch.ops.aten.addmm_: 1}


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records products of two matrices. Batched products are left out: no layer makes them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: list[Shape] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = _FIRST_MATRIX.get(func.overloadpacket)
        if first is not None:
            self.shapes.append((*args[first].shape, args[first + 1].shape[1]))
        return func(*args, **(kwargs or {}))


def products_of(model: Model, batch: Batch) -> list[Shape]:
    """The products of one forward pass in training, in order."""
    recorder = _Recorder()
    with without(), recorder:  # inside a native kernel they could not be seen
        model(batch)
    return recorder.shapes


def products_alone(shapes: list[Shape], device: str) -> Callable[[], None]:
    """A job that does nothing but the products of a training step: one each forward, two backward."""
    made = {
        (m, k, n): [torch.randn(size, device=device) for size in ((m, k), (n, k), (m, n))]
        for m, k, n in set(shapes)
    }

    @torch.no_grad()
    def job() -> None:
        for shape in shapes:
            inputs, weight, _ = made[shape]
            torch.mm(inputs, weight.t())  # a weight as torch keeps it
        for shape in reversed(shapes):
            inputs, weight, gradient = made[shape]
            torch.mm(gradient, weight)
            torch.mm(gradient.t(), inputs)

    return job
