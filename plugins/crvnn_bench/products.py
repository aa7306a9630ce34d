"""A lower bound on the time of a training step: its matrix products alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from crvnn_core import Batch, Model
from crvnn_core.kernels import without

#: What it is called beside the contenders.
PRODUCTS = "products"


@frozen
class Product:
    """The shape of a product [m, k] times [k, n]: m positions, k input features, n output features."""

    m: int
    k: int
    n: int

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the product and of its two gradients."""
        return 3 * self.m * self.k * self.n


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records products of two matrices. Batched products are left out: no layer makes them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: list[Product] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet in _FIRST_MATRIX:
            one, two = args[_FIRST_MATRIX[packet] : _FIRST_MATRIX[packet] + 2]
            self.products.append(Product(one.shape[0], one.shape[1], two.shape[1]))
        return func(*args, **(kwargs or {}))


#: The index of the first of the two matrices among the arguments.
_FIRST_MATRIX = {torch.ops.aten.mm: 0, torch.ops.aten.addmm: 1, torch.ops.aten.addmm_: 1}


def products_of(model: Model, batch: Batch) -> list[Product]:
    """The products of one forward pass in training, in order."""
    recorder = _Recorder()
    with without(), recorder:  # inside a native kernel they could not be seen
        model(batch)
    return recorder.products


class ProductsAlone:
    """A job that does nothing but the products of a training step: one each forward, two backward."""

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
