"""Encoders of fixed structure against recursion written plainly."""

import pytest
import torch

from crvnn_core.testing.parts import BracketingCell, PlainCell
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.fixed import Balanced, LeftToRight


def test_left_to_right_reads_from_left_to_right_beginning_with_start():
    encoder = LeftToRight(4, PlainCell(4))
    inputs = torch.randn(1, 5, 4)
    state = encoder.cell.leaf(encoder.start)
    for position in range(5):
        state = encoder.cell(state, encoder.cell.leaf(inputs[0, position]))
    got = encoder(inputs, torch.ones(1, 5, dtype=torch.bool))
    torch.testing.assert_close(got.vector[0], state)
    assert got.steps.tolist() == [5]


def slow_balanced(cell, leaves):
    if len(leaves) == 1:
        return leaves[0]
    half = -(-len(leaves) // 2)
    return cell(slow_balanced(cell, leaves[:half]), slow_balanced(cell, leaves[half:]))


@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_balanced_composes_balanced_trees(n):
    encoder = Balanced(4, PlainCell(4))
    inputs = torch.randn(2, 33, 4)
    mask = torch.arange(33) < torch.tensor([[n], [33]])
    encoding = encoder(inputs, mask)
    for row, length in ((0, n), (1, 33)):
        expected = slow_balanced(encoder.cell, list(encoder.cell.leaf(inputs[row, :length])))
        torch.testing.assert_close(encoding.vector[row], expected, atol=1e-6, rtol=1e-6)
    assert encoding.steps.tolist() == [(n - 1).bit_length(), 6]


def test_balanced_splits_after_the_larger_half():
    cell = BracketingCell(1, list("abcde"))
    inputs = torch.arange(5.0).view(1, 5, 1)
    vector = Balanced(1, cell)(inputs, torch.ones(1, 5, dtype=torch.bool)).vector
    assert cell.name(vector[0]) == "(((a b) c) (d e))"


@pytest.mark.parametrize("n", [1, 2, 13])
def test_balanced_shows_the_trees_that_it_composes(n):
    lengths = [13, n]
    names = [f"x{i}" for i in range(13)]
    cell = BracketingCell(1, names)
    inputs = torch.arange(13.0).view(1, 13, 1).expand(2, 13, 1)
    mask = torch.arange(13) < torch.tensor(lengths).unsqueeze(1)
    encoding = Balanced(1, cell)(inputs, mask, trace=True)
    trees = trees_of(encoding, [names[:length] for length in lengths])
    assert [str(tree) for tree in trees] == [cell.name(vector) for vector in encoding.vector]


def test_left_to_right_shows_a_tree_that_branches_to_the_left():
    encoding = LeftToRight(4, PlainCell(4))(
        torch.randn(2, 4, 4), torch.arange(4) < torch.tensor([[4], [1]]), trace=True
    )
    assert [str(tree) for tree in trees_of(encoding, ["abcd", "a"])] == ["(((a b) c) d)", "a"]


@pytest.mark.parametrize("encoder", [Balanced, LeftToRight])
def test_fixed_structures_are_shown_only_when_asked_for(encoder):
    assert encoder(4, PlainCell(4))(torch.randn(1, 3, 4), torch.ones(1, 3) > 0).joins is None
