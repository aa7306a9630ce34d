"""Neighbours that are remembered within a step are those of the tensor as it is now."""

import pytest
import torch

from crvnn_core.engine.neighbourhoods import CachedNeighbourhood, MatrixNeighbourhood
from crvnn_core.testing.oracles import matrices
from crvnn_parts.retrievers.interval import Adhoc
from twins import by_kernels, needs_kernels, numbers

EXISTS = torch.tensor([[1.0, 0.4, 0.0, 0.7, 1.0]])
MASK = torch.ones_like(EXISTS, dtype=torch.bool)
KINDS = {
    "cached": lambda: CachedNeighbourhood(matrices(EXISTS)),
    "sums of intervals": lambda: Adhoc("float64", small=0)(EXISTS, MASK),
    "compiled": lambda: by_kernels(EXISTS, MASK),
}
kinds = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=needs_kernels) if k == "compiled" else k for k in KINDS]
)


@kinds
@pytest.mark.parametrize("inference", [False, True])
def test_a_tensor_that_was_changed_in_place_has_new_neighbours(kind, inference):
    with torch.inference_mode(inference):
        near, values = KINDS[kind](), numbers((1, 5, 3), 0).clone()
        near.window(values, 1), near.left(values), near.right(values)
        values.add_(1.0)
        dense = matrices(EXISTS)  # eq. 5 from its definition
        torch.testing.assert_close(near.left(values), dense.left(values))
        torch.testing.assert_close(near.right(values), dense.right(values))


def test_neighbours_of_the_same_tensor_are_computed_once():
    class Counting(MatrixNeighbourhood):
        calls = 0

        def left(self, values):
            self.calls += 1
            return super().left(values)

    plain = matrices(EXISTS)
    counting = Counting(plain.to_left, plain.to_right)
    near, values = CachedNeighbourhood(counting), numbers((1, 5, 3), 0)
    assert near.left(values) is near.left(values)
    assert counting.calls == 1
