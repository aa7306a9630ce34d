"""Selected, joined and changed rows by kernels and in torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.blend import blend_at
from crvnn_core.engine.operations.rows import changed_rows, put_parents, rows_at, take_children
from crvnn_core.kernels import without
from twins import assert_twins, decisions, needs_kernels, nodes_and_rows, numbers, some


@needs_kernels
@some
@given(nodes_and_rows(), st.integers(0, 99))
def test_selected_rows_are_those_of_torch(drawn, seed):
    shape, rows = drawn

    def run(one, two):
        return rows_at(one, two, rows)

    assert_twins(run, run, (numbers(shape, seed), numbers(shape, seed + 1)), tolerance=0)


@needs_kernels
@some
@given(nodes_and_rows(), st.booleans(), st.integers(0, 99))
def test_joined_rows_are_those_of_torch(drawn, held, seed):
    """Rows next to each other too; and where something else holds the gradient of the nodes."""
    shape, rows = drawn
    rows = rows[rows < shape[0] * shape[1] - 1]

    def run(v):
        v = v.clone()  # without gradients it is changed
        squares = v * v
        left, right, rest = take_children(v, rows)
        joined = put_parents(rest, 2 * left * right + right, rows)
        return (joined, squares) if held else joined

    assert_twins(run, run, (numbers(shape, seed),), tolerance=1e-6)


@needs_kernels
def test_without_gradients_parents_are_put_into_the_nodes_themselves():
    for enabled in (True, False):
        nodes = torch.zeros(1, 4, 2)
        with torch.set_grad_enabled(enabled):
            made = put_parents(nodes, torch.ones(1, 2), torch.tensor([1]))
        assert made.sum() == 2
        assert nodes.any().item() is not enabled


@needs_kernels
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@some
@given(decisions(), st.integers(0, 99))
def test_the_rows_whose_left_c_exceeds_the_tolerance_are_those_of_torch(tolerance, drawn, seed):
    exists, _, _ = drawn
    left_c = numbers(exists.shape, seed, torch.rand).sub(0.3).clamp(0)
    got = changed_rows(left_c, exists, tolerance)
    with without():
        assert torch.equal(got, changed_rows(left_c, exists, tolerance))


@needs_kernels
@pytest.mark.parametrize("row", [-1, 4])
def test_row_indices_out_of_range_are_refused(row):
    nodes, left_c, where = torch.ones(1, 4, 2), torch.ones(1, 4), torch.tensor([1, row])
    with pytest.raises(IndexError, match="out of range for 4 rows"):
        rows_at(nodes, nodes, where)
    with pytest.raises(IndexError, match="out of range for 4 rows"):
        blend_at(nodes, nodes[0, :2], nodes[0, :2], left_c, where)
    with pytest.raises(IndexError, match="out of range for 3 rows"):  # the last row has none behind it
        take_children(nodes, where)
    with pytest.raises(IndexError, match="out of range for 3 rows"):
        put_parents(nodes, nodes[0, :2], where)
