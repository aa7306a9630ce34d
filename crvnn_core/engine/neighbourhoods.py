"""Ready-made neighbourhoods for retrievers to return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import Operation
from crvnn_core.precision import at_least_float32, autocasting, full_precision

T = TypeVar("T")


def apply_to_columns(operate: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Let an operator on ``[B, n, d]`` take ``[B, n]`` as well."""
    return operate(values.unsqueeze(-1)).squeeze(-1) if values.dim() == 2 else operate(values)


class MatrixNeighbourhood(Neighbourhood):
    """Any relaxation that can write down its probabilities: two ``[B, n, n]`` matrices, row i looking at column j."""

    def __init__(self, to_left: Tensor, to_right: Tensor) -> None:
        self.to_left, self.to_right = to_left, to_right

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: _product(self.to_left, v), values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: _product(self.to_right, v), values)


def _product(matrix: Tensor, values: Tensor) -> Tensor:
    """matrix @ values in at least float32 (autocast would round them), and in the type of the values."""
    if matrix.dtype == values.dtype and not autocasting(values.device.type):
        return torch.bmm(matrix, values)
    with full_precision(values.device.type):
        wide = at_least_float32(values)
        return (matrix.to(wide.dtype) @ wide).to(values.dtype)


class Adjacent(Neighbourhood):
    """Neighbours where everything but the padding exists: the positions next to one. A batch of one has no padding."""

    def __init__(self, present: Tensor) -> None:
        self.present = present

    def window(self, values: Tensor, reach: int) -> list[Tensor]:
        """Slices of one padded copy."""
        if (
            torch.compiler.is_compiling() or len(values) > 1
        ):  # padding is nobody's neighbour; one alone has none
            values = values * (self.present if values.dim() == 2 else self.present.unsqueeze(-1))
        n = values.shape[1]
        padded = pad(values, (0, 0) * (values.dim() - 2) + (reach, reach))
        return [padded[:, start : start + n] for start in range(2 * reach + 1)]

    def left(self, values: Tensor) -> Tensor:
        return self.window(values, 1)[0]

    def right(self, values: Tensor) -> Tensor:
        return self.window(values, 1)[2]


@Operation
def adjacent(present: Tensor, exists: Tensor) -> Neighbourhood:
    """Neighbours where everything but the padding exists, with a cache.

    :param exists: 1 at present positions and 0 at padding; no gradient is passed to it.
    """
    return CachedNeighbourhood(Adjacent(present))


def nearest_present(present: Tensor) -> tuple[Tensor, Tensor]:
    """From flags [n]: 1 where j is the closest present position to the left, and to the right, of i; [n, n] each."""
    places = torch.arange(len(present), device=present.device)
    before = places < places.unsqueeze(1)  # [i, j]: j stands before i
    last = torch.where(present & before, places, -1).amax(1, keepdim=True)
    first = torch.where(present & before.T, places, len(present)).amin(1, keepdim=True)
    kind = torch.get_default_dtype()
    return (places == last).to(kind), (places == first).to(kind)


class IdentityCache(Generic[T]):
    """What was computed from a tensor, found again by the tensor itself unless it was changed in place since.

    Changes of inference tensors are not counted by torch, so nothing is kept of them, nor in a graph that is compiled.
    """

    def __init__(self) -> None:
        self._found: list[tuple[Tensor, int, T]] = []

    def get(self, key: Tensor, compute: Callable[[Tensor], T]) -> T:
        """What is known of ``key``; computed if nothing is."""
        for known, version, value in self._found:
            if known is key and version == key._version:
                return value
        return self.put(key, compute(key))

    def put(self, key: Tensor, value: T) -> T:
        """Keep a value for ``key``."""
        if not torch.compiler.is_compiling() and not key.is_inference():
            self._found.append((key, key._version, value))
        return value


class CachedNeighbourhood(Neighbourhood):
    """Asks another neighbourhood for left and right of a tensor once, however often the parts of a step do."""

    caches = True

    def __init__(self, near: Neighbourhood) -> None:
        self.near = near
        self._lefts: IdentityCache[Tensor] = IdentityCache()
        self._rights: IdentityCache[Tensor] = IdentityCache()

    def window(self, values: Tensor, reach: int) -> list[Tensor]:
        found = self.near.window(values, reach)
        if reach:
            self._lefts.put(values, found[reach - 1])
            self._rights.put(values, found[reach + 1])
        return found

    def left(self, values: Tensor) -> Tensor:
        return self._lefts.get(values, self.near.left)

    def right(self, values: Tensor) -> Tensor:
        return self._rights.get(values, self.near.right)
