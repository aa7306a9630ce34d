"""Trees: their nodes, spans and depth, and what is no tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import InputError
from crvnn_core.trees import Node, Tree


def test_a_tree_is_what_its_nodes_say():
    tree = Tree.of((("a", "b"), ("c", ("d", "e"))))
    assert tree.spans() == {(0, 2), (3, 5), (2, 5), (0, 5)}
    assert tree.depth == 3
    assert Tree.of("a").depth == 0
    assert tree.heights() == [1, 1, 2, 3]
    assert tree.children() == [(~0, ~1), (~3, ~4), (~2, 1), (0, 2)]
    assert repr(tree) == "Tree('((a b) (c (d e)))')"
    assert tree.nodes[-1] == Node(0, 2, 5)


@given(st.integers(1, 8).flatmap(lambda n: st.permutations(range(n - 1))))
def test_pairs_in_pairs_give_the_same_tree(order):
    tree = Tree.joining("abcdefgh"[: len(order) + 1], order)
    assert Tree.of(tree.nested()).same(tree)


def test_trees_of_other_tokens_or_structure_are_not_the_same():
    tree = Tree.of((("a", "b"), "c"))
    assert not tree.same(Tree.of(("a", ("b", "c"))))
    assert not tree.same(Tree.of((("a", "b"), "d")))
    assert tree.same(Tree.joining("abc", [0, 1], [1, 2, None]))
    assert tree != Tree.joining("abc", [0, 1], [1, 2, None])


@pytest.mark.parametrize(
    "nested", [(), ("a",), ("a", "b", "c"), ("a", 1), None, ("a", None), [["a", "b"], []]]
)
def test_what_is_not_made_of_pairs_is_refused(nested):
    with pytest.raises(InputError, match="a token or a pair of trees"):
        Tree.of(nested)


@pytest.mark.parametrize("positions", [[0, 0], [2, 0], [-1, 0]])
def test_a_position_joins_once_and_only_what_is_to_its_right(positions):
    with pytest.raises(InputError, match="cannot join"):
        Tree.joining("abc", positions)


def test_a_tree_covers_all_its_tokens():
    with pytest.raises(InputError, match="has 2 inner nodes, not 1"):
        Tree.joining("abc", [0])
