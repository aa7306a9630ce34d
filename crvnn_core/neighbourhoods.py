"""Ready-made neighbourhoods for retrievers to return."""

from __future__ import annotations

from torch import Tensor

from crvnn_core.interfaces import Neighbourhood


def apply_to_columns(operate: object, values: Tensor) -> Tensor:
    """Let an operator on ``[B, n, d]`` take ``[B, n]`` as well."""
    assert callable(operate)
    if values.dim() == 2:
        columns: Tensor = operate(values.unsqueeze(-1))
        return columns.squeeze(-1)
    result: Tensor = operate(values)
    return result


class MatrixNeighbourhood(Neighbourhood):
    """Any relaxation that can write down its probabilities: two ``[B, n, n]`` matrices, row i looking at column j."""

    def __init__(self, to_left: Tensor, to_right: Tensor) -> None:
        self.to_left, self.to_right = to_left, to_right

    def left(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: self.to_left.to(v.dtype) @ v, values)

    def right(self, values: Tensor) -> Tensor:
        return apply_to_columns(lambda v: self.to_right.to(v.dtype) @ v, values)


class Remembered(Neighbourhood):
    """Asks another neighbourhood once for each tensor, however often the parts of a step ask."""

    def __init__(self, near: Neighbourhood) -> None:
        self._near = near
        self._lefts: dict[int, tuple[Tensor, Tensor]] = {}
        self._rights: dict[int, tuple[Tensor, Tensor]] = {}

    def left(self, values: Tensor) -> Tensor:
        if id(values) not in self._lefts:  # the tensor is kept as well, so its id stays its own
            self._lefts[id(values)] = (values, self._near.left(values))
        return self._lefts[id(values)][1]

    def right(self, values: Tensor) -> Tensor:
        if id(values) not in self._rights:
            self._rights[id(values)] = (values, self._near.right(values))
        return self._rights[id(values)][1]
