"""The operations of the engine by kernels and in torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.blend import blend, blend_at
from crvnn_core.engine.operations.compaction import compact, survey
from crvnn_core.engine.operations.joins import join
from crvnn_core.engine.operations.rows import changed_rows, put_parents, rows_at, take_children
from crvnn_core.engine.operations.transition import transition
from crvnn_core.kernels import without
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from twins import (
    assert_twins,
    by_kernels,
    decisions,
    flags,
    lines,
    needs_kernels,
    nodes_and_rows,
    numbers,
    some,
)

pytestmark = needs_kernels


def assert_bits(operation, *given):
    """That kernels give the bits and types that torch gives."""
    got = operation(*given)
    with without():
        twin = operation(*given)
    for found, wanted in zip(
        *((each,) if torch.is_tensor(each) else each for each in (got, twin)), strict=True
    ):
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("everywhere", [True, False])
@some
@given(nodes_and_rows(), st.integers(0, 99))
def test_the_blend_of_nodes_and_parents_agrees_with_torch(everywhere, drawn, seed):
    shape, rows = drawn
    left_c = numbers(shape[:2], seed, torch.rand).mul(1.5).clamp(0.25, 1.25) - 0.25  # some exactly 0 or 1
    parents = numbers(shape if everywhere else (len(rows), shape[2]), seed + 1)

    def run(v, p, g):
        return blend(v, p, g) if everywhere else blend_at(v, v.flatten(0, 1)[rows], p, g, rows)

    assert_twins(run, run, (numbers(shape, seed + 2), parents, left_c))


@some
@given(lines(), st.sampled_from([1, 5, 70]), st.booleans(), st.integers(0, 99))
def test_compaction_is_that_of_torch(line, width, all_sequences, seed):
    exists, mask = line
    kept = mask & (numbers(mask.shape, seed, torch.rand) > 0.4)
    kept[:, 0] = True
    rows = list(range(len(mask))) if all_sequences else sorted({0, seed % len(mask)})
    size = int(kept[rows].sum(1).max())

    def run(v, e, g):
        return compact(v, e, g, kept, *flags(mask, seed), rows, size)

    given_ = (numbers((*exists.shape, width), seed), exists, numbers(exists.shape, seed + 1))
    assert_twins(lambda *inputs: run(*inputs)[:3], lambda *inputs: run(*inputs)[:3], given_, tolerance=0)
    assert_bits(run, *given_)


@some
@given(decisions(), st.integers(0, 99))
def test_kept_positions_and_their_counts_are_those_of_torch(drawn, seed):
    exists, mask, eligible = drawn
    assert_bits(survey, numbers((len(mask),), seed) > 0, exists * mask, mask, eligible)


@some
@given(lines(), st.sampled_from(["none", "some", "all"]), st.integers(0, 99))
def test_binary_joins_are_those_of_torch(line, closing, seed):
    _, present = line
    tokens = present & (torch.arange(present.shape[1]) > 0)
    eligible = tokens & (torch.arange(present.shape[1]) < present.sum(1, keepdim=True) - 2)
    compose = (numbers(present.shape, seed, torch.rand) * 9).floor() / 8  # often exactly a half
    exists = 0.5 ** (numbers(present.shape, seed + 1, torch.rand) * 3).floor()
    over = torch.arange(len(present)) % 2 < {"none": 0, "some": 1, "all": 2}[closing]
    assert_bits(join, compose, exists, eligible, tokens, present, over)


@some
@given(decisions(), st.integers(0, 99))
def test_the_transition_agrees_with_torch(drawn, seed):
    exists, mask, eligible = drawn
    tokens = mask & (numbers(mask.shape, seed, torch.rand) > 0.2)

    def run(find):
        return lambda c, e: transition(c, find(e, mask), e, eligible, tokens)

    given_ = (numbers(exists.shape, seed + 1, torch.rand), exists * mask)
    assert_twins(run(by_kernels), run(AdhocDense()), given_)


@pytest.mark.usefixtures("by")
def test_a_position_composed_with_probability_one_has_zero_existence():
    mask = torch.ones(1, 4, dtype=torch.bool)
    exists = torch.tensor([[0.3, 0.7, 1.0, 1e-30]])
    assert not transition(torch.ones(1, 4), Adhoc()(exists, mask), exists, mask, mask)[2].any()


@some
@given(nodes_and_rows(), st.integers(0, 99))
def test_selected_rows_are_those_of_torch(drawn, seed):
    shape, rows = drawn

    def run(one, two):
        return rows_at(one, two, rows)

    assert_twins(run, run, (numbers(shape, seed), numbers(shape, seed + 1)), tolerance=0)


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


@pytest.mark.parametrize("enabled", [True, False])
def test_without_gradients_parents_are_put_into_the_nodes_themselves(enabled):
    nodes = torch.zeros(1, 4, 2)
    with torch.set_grad_enabled(enabled):
        made = put_parents(nodes, torch.ones(1, 2), torch.tensor([1]))
    assert made.sum() == 2
    assert nodes.any().item() is not enabled


@some
@given(decisions(), st.sampled_from([0.0, 0.2]), st.integers(0, 99))
def test_the_rows_whose_left_c_exceeds_the_tolerance_are_those_of_torch(drawn, tolerance, seed):
    exists, _, _ = drawn
    assert_bits(changed_rows, numbers(exists.shape, seed, torch.rand).sub(0.3).clamp(0), exists, tolerance)


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
