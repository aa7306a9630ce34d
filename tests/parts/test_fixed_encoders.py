"""Encoders of fixed structure against recursion written plainly."""

import pytest
import torch

from crvnn_core.testing.parts import PlainCell
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


def test_left_to_right_shows_a_tree_that_branches_to_the_left():
    encoding = LeftToRight(4, PlainCell(4))(
        torch.randn(2, 4, 4), torch.arange(4) < torch.tensor([[4], [1]]), trace=True
    )
    assert [str(tree) for tree in trees_of(encoding, ["abcd", "a"])] == ["(((a b) c) d)", "a"]
