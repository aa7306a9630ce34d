"""The floor of a training step: the time of its matrix products alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from crvnn_core import Batch, Model

#: How the floor is called among contenders.
FLOOR = "products"
DESCRIPTION = (
    "the products of the embedding, the cell, the scorer and the head alone, at the shapes that crvnn had at every "
    "step: each in the forward pass, and its two in the backward pass"
)


@frozen
class Product:
    """[m, k] times [k, n]: m positions, k features of each, a weight with n outputs."""

    m: int
    k: int
    n: int

    @property
    def multiply_adds(self) -> int:
        """Of it and of its two gradients."""
        return 3 * self.m * self.k * self.n


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the products of two matrices; products of batches of matrices are no layer's."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: list[Product] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet in _PLACES:
            one, two = args[_PLACES[packet] : _PLACES[packet] + 2]
            self.products.append(Product(one.shape[0], one.shape[1], two.shape[1]))
        return func(*args, **(kwargs or {}))


#: Where the two matrices stand among the arguments.
_PLACES = {torch.ops.aten.mm: 0, torch.ops.aten.addmm: 1, torch.ops.aten.addmm_: 1}


def products_of(model: Model, batch: Batch) -> list[Product]:
    """The products of a forward pass in training, in order, as they really happened."""
    recorder = _Recorder()
    with recorder:
        model(batch)
    return recorder.products


class Floor:
    """Does nothing but the products of a training step, forward and backward."""

    def __init__(self, products: list[Product], device: str) -> None:
        self.products = products
        self._made: dict[Product, tuple[Tensor, Tensor, Tensor]] = {}
        for product in Counter(products):
            inputs = torch.randn(product.m, product.k, device=device)
            weight = torch.randn(product.n, product.k, device=device)  # as torch keeps it
            self._made[product] = (inputs, weight, torch.randn(product.m, product.n, device=device))

    @torch.no_grad()
    def __call__(self) -> None:
        for product in self.products:
            inputs, weight, _ = self._made[product]
            torch.mm(inputs, weight.t())
        for product in reversed(self.products):
            inputs, weight, gradient = self._made[product]
            torch.mm(gradient, weight)
            torch.mm(gradient.t(), inputs)
