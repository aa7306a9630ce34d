"""Composition along gold trees against plain recursion."""

import pytest
import torch

from crvnn_core import CrvnnError, InputError
from crvnn_core.testing.parts import AddingCell, PlainCell
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.cells.recurrent import GRUCell, LSTMCell, RNNCell
from crvnn_parts.encoders.trees.gold_tree import GoldTree
from slow_twins import assert_same, padded

WIDTH = 6
CELLS = [GatedCell, GRUCell, LSTMCell, RNNCell]


def random_tree(n, seed):
    order = torch.randperm(n - 1, generator=torch.Generator().manual_seed(seed)).tolist()
    return Tree.joining([f"x{i}" for i in range(n)], order)


def recursion(cell, tree, leaves):
    """The root's state, by recursion on the tree."""
    states = {(place, place + 1): leaf for place, leaf in enumerate(leaves)}
    for node in tree.nodes:
        states[node.span] = cell(states[node.start, node.split], states[node.split, node.end])
    return states[0, len(leaves)]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [(9, 1, 14, 2, 14), (1, 1)])
def test_it_equals_plain_recursion_in_values_and_gradients(cell, lengths):
    torch.manual_seed(0)
    encoder = GoldTree(WIDTH, cell(WIDTH)).double()
    trees = [random_tree(n, seed) for seed, n in enumerate(lengths)]
    inputs, mask = padded(lengths, WIDTH)
    got = encoder(inputs, mask, levels=levels_of(trees, mask))
    own = encoder.cell
    want = torch.stack(
        [
            own.readout(recursion(own, tree, list(own.leaf(inputs[row, : len(tree.tokens)]))))
            for row, tree in enumerate(trees)
        ]
    )
    assert_same(encoder, inputs, [got.vector], [want])
    assert got.steps.tolist() == [tree.depth for tree in trees]


@pytest.mark.parametrize("order", [range(39), range(38, -1, -1)])
def test_the_cell_runs_once_a_level_on_every_node_of_it(order):
    sizes = []

    class Counting(AddingCell):
        def forward(self, left, right):
            sizes.append(len(left))
            return left + right

    tree = Tree.joining(["x"] * 40, order)
    inputs, mask = torch.randn(3, 40, 2), torch.ones(3, 40, dtype=torch.bool)
    encoding = GoldTree(2, Counting(2))(inputs, mask, levels=levels_of([tree] * 3, mask))
    assert sizes == [3] * 39
    torch.testing.assert_close(encoding.vector, inputs.sum(1))


def test_it_shows_the_trees_that_it_is_given():
    trees = [random_tree(7, 1), random_tree(1, 0), random_tree(5, 3)]
    mask = torch.arange(7) < torch.tensor([[7], [1], [5]])
    joins = GoldTree(4, PlainCell(4))(
        torch.randn(3, 7, 4), mask, trace=True, levels=levels_of(trees, mask)
    ).joins
    assert all(tree.same(Tree.joining(tree.tokens, found)) for tree, found in zip(trees, joins, strict=True))


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (None, "composes along given trees: levels"),
        ([[1, 0]], r"got \[1, 2\]"),
        ([[1, 0, 0]], "levels of sequence 0 of the batch describe no tree"),
        ([[1, 2, 3]], "levels of sequence 0 of the batch describe no tree"),
        ([[1, 1, 0]], "have the same level"),
    ],
)
def test_levels_that_are_no_tree_are_refused(levels, said):
    encoder, mask = GoldTree(4, PlainCell(4)), torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match=said):
        encoder(torch.randn(1, 3, 4), mask, levels=None if levels is None else torch.tensor(levels))


def test_it_cannot_be_exported_without_its_task():
    with pytest.raises(CrvnnError, match="trees of its task, which an exported file is not given"):
        GoldTree(4, PlainCell(4)).traceable()
