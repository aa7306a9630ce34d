"""Conflicts: nodes of a printed tree that did not get into the sentence vector."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Recursion
from crvnn_core.engine.trace import Trace
from crvnn_core.trees import Tree, tree_of
from crvnn_core.trees.extraction import conflict_steps, conflicts_told
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from small import Eager

LETTERS = "abcdefgh"


@pytest.mark.parametrize("boundaries", [True, False])
def test_six_of_eight_tokens_of_a_constructed_decision_have_no_gradient_and_are_told(boundaries):
    torch.manual_seed(0)
    parts = {"retriever": Adhoc(), "scorer": WindowScorer(4), "cell": GatedCell(4), "halting": Threshold()}
    engine = Recursion(4, decision=Eager(), **parts, boundaries=boundaries).eval()
    inputs = torch.randn(1, 8, 4, requires_grad=True)
    encoding = engine(inputs, torch.ones(1, 8, dtype=torch.bool), trace=True)
    (encoding.vector @ torch.arange(4.0)).sum().backward()  # not the sum, which a LayerNorm fixes
    assert (inputs.grad[0].abs().sum(1) > 0).tolist() == [False] * 6 + [True] * 2
    tree = tree_of(encoding.trace, 0, LETTERS)
    assert str(tree) == "(((((((a b) c) d) e) f) g) h)"  # all eight
    assert [(node.split, node.conflict) for node in tree.conflicts] == [(split, 1) for split in range(1, 7)]
    assert conflicts_told(tree) == (
        "6 conflicts: 'a' (token 1, step 1), 'b' (token 2, step 1), 'c' (token 3, step 1) and 3 more. In a conflict "
        "a node joins its right neighbour in the very step in which that one is composed, and what it carried is "
        "lost: here 6 of 8 tokens."
    )


def decided(exists, compose):
    """A trace of one step, from e before it and c."""
    e, c = torch.tensor([exists]), torch.tensor([compose])
    return Trace(c.unsqueeze(0), torch.stack([e, e * (1 - c)]), torch.ones_like(e) > 0, torch.tensor([1]))


@pytest.mark.parametrize(
    ("exists", "compose", "lost"),
    [
        ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1, None]),
        ([1.0, 1.0, 1.0], [0.72, 0.7, 0.0], [1, None]),  # 0.504
        ([1.0, 1.0, 1.0], [0.7, 0.7, 0.0], [None, None]),  # 0.49
        ([1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [None, None]),
        ([1.0, 0.2, 1.0, 1.0], [0.9, 0.0, 0.9, 0.0], [1, None, None]),  # over one that is nearly gone
        ([1.0, 0.8, 1.0, 1.0], [0.9, 0.0, 0.9, 0.0], [None, None, None]),
        ([0.2, 1.0, 1.0], [1.0, 1.0, 0.0], [None, None]),  # it is nearly gone itself
    ],
)
def test_a_conflict_is_where_two_neighbours_that_exist_are_more_likely_than_not_both_composed(
    exists, compose, lost
):
    assert conflict_steps(decided(exists, compose), 0, len(exists)) == lost


@given(st.integers(1, 9), st.integers(0, 5), st.integers(0, 10**6))
def test_conflicts_are_those_that_walking_to_the_right_finds(length, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    c = torch.rand(steps, 1, 9, generator=generator) ** 0.3
    exists = torch.cat([torch.ones(1, 1, 9), (1 - c).cumprod(0)])
    if seed % 2:
        exists = torch.rand(steps + 1, 1, 9, generator=generator)
    mask = torch.arange(9).unsqueeze(0) < length
    trace = Trace(c * mask, exists * mask, mask, torch.tensor([steps]))
    expected = [None] * (length - 1)
    for k in range(steps):
        there = [i for i in range(length) if trace.exists[k, 0, i] > 0.5]
        for i in there:
            j = next((j for j in there if j > i), length - 1)
            if i < length - 1 and trace.compose[k, 0, i] * trace.compose[k, 0, j] > 0.5:
                expected[i] = k + 1
    assert conflict_steps(trace, 0, length) == expected


@pytest.mark.parametrize(("between", "lost"), [(0.0, None), (0.3, 1)])
def test_modulation_excludes_conflicts_only_while_e_is_0_or_1(between, lost):
    exists = torch.tensor([[1.0, between, between, between, 1.0, 1.0]])
    scores = torch.tensor([[10.0, -10.0, -10.0, -10.0, 10.0, -10.0]])
    eligible = torch.tensor([[True] * 5 + [False]])
    c = Modulated()(scores, Adhoc()(exists, torch.ones_like(eligible)), eligible, exists)
    assert conflict_steps(decided(exists[0].tolist(), c[0].tolist()), 0, 6)[0] == lost


def test_the_last_step_in_which_a_position_is_lost_belongs_to_the_node_that_it_joins_with():
    c = torch.tensor([[0.3, 0.0, 0.0, 0.0], [0.25, 0.0, 0.0, 0.0], [0.9, 0.9, 0.0, 0.0]]).unsqueeze(1)
    trace = Trace(
        c,
        torch.cat([torch.ones(1, 1, 4), (1 - c).cumprod(0)]),
        torch.ones(1, 4) > 0,
        torch.tensor([3]),
    )
    (node,) = tree_of(trace, 0, "abcd").conflicts
    assert (node.split, node.step, node.conflict) == (1, 2, 3)


def test_a_tree_without_conflicts_and_no_tree_have_nothing_to_tell():
    assert conflicts_told(Tree.of((("a", "b"), "c"))) == conflicts_told(None) == ""
