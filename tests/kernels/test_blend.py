"""The blend of nodes and parents by kernels and in torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.blend import blend, blend_at
from twins import assert_twins, needs_kernels, nodes_and_rows, numbers, some


@needs_kernels
@pytest.mark.parametrize("everywhere", [True, False])
@some
@given(nodes_and_rows(), st.integers(0, 99))
def test_the_blend_of_nodes_and_parents_agrees_with_torch(everywhere, drawn, seed):
    shape, rows = drawn
    where = None if everywhere else rows
    left_c = numbers(shape[:2], seed, torch.rand).mul(1.5).clamp(0.25, 1.25) - 0.25  # some exactly 0 or 1
    parents = numbers(shape if everywhere else (len(rows), shape[2]), seed + 1)

    def run(v, p, g):
        return blend(v, p, g) if where is None else blend_at(v, v.flatten(0, 1)[where], p, g, where)

    assert_twins(run, run, (numbers(shape, seed + 2), parents, left_c))
