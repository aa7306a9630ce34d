"""Scores of trees against gold ones, and the trees that need no model."""

from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import (
    BASELINES,
    Sentence,
    agreement,
    at_random,
    balanced,
    f1,
    left_branching,
    mean_f1,
    right_branching,
    score,
)
from crvnn_tasks.listops.language import bracketed, gold_tree, lists
from crvnn_tasks.listops.recipe import Recipe, expressions
from crvnn_tasks.logic.language import gold_tree as logic_tree
from crvnn_tasks.logic.language import groups, pairs


@st.composite
def two_trees(draw, least=3):
    n = draw(st.integers(least, 9))
    orders = [draw(st.permutations(range(n - 1))) for _ in range(2)]
    return [Tree.joining("abcdefghi"[:n], order) for order in orders]


def slow_f1(one, two):
    """By looking at every span of two tokens or more that is not the whole."""
    n = len(one.tokens)
    spans = [(i, j) for i, j in combinations(range(n + 1), 2) if 2 <= j - i < n]
    mine, theirs = ({span for span in spans if span in tree.spans()} for tree in (one, two))
    precision, recall = len(mine & theirs) / len(mine), len(mine & theirs) / len(theirs)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@given(two_trees())
def test_f1_is_what_its_definition_says(trees):
    one, two = trees
    assert f1(one, two) == pytest.approx(slow_f1(one, two)) == pytest.approx(f1(two, one))
    assert f1(one, one) == 1
    assert (f1(one, two) == 1) == one.same(two)


def test_a_score_by_hand():
    gold = [Tree.of(((("a", "b"), "c"), "d")), Tree.of(("a", ("b", "c"))), Tree.of(("a", "b"))]
    found = [Tree.of((("a", "b"), ("c", "d"))), Tree.of(("a", ("b", "c"))), Tree.of(("a", "b"))]
    own = [frozenset({(0, 2), (1, 3), (0, 4)}), frozenset({(1, 3)}), None]
    result = score(found, [Sentence(tree, spans) for tree, spans in zip(gold, own, strict=True)])
    assert result.sentences == 2  # the pair has one tree only
    assert result.f1 == pytest.approx((1 / 2 + 1) / 2)
    assert result.corpus_f1 == pytest.approx(2 / 3)
    assert result.exact == 0.5
    assert result.constituents == pytest.approx(2 / 3)  # the whole sentence does not count
    assert result.depth == 2


def test_nothing_to_compare_is_no_score():
    result = score([Tree.of("a")], [Sentence(Tree.of("a"))])
    assert result.plain() == {
        "sentences": 0,
        "f1": None,
        "corpus_f1": None,
        "exact": None,
        "constituents": None,
        "depth": None,
    }
    assert agreement([[Tree.of("a")]] * 2) is None


def test_agreement_is_the_mean_over_every_two_runs():
    left, right = left_branching("abc"), right_branching("abc")
    runs = [[left, left], [left, right], [right, right]]
    assert agreement(runs) == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert mean_f1(runs[0], runs[1]) == 0.5
    assert agreement([runs[0]] * 3) == 1


def test_baselines_have_the_structure_that_they_are_called_by():
    assert str(left_branching("abcd")) == "(((a b) c) d)"
    assert str(right_branching("abcd")) == "(a (b (c d)))"
    assert str(balanced("abcde")) == "(((a b) c) (d e))"
    for make in BASELINES.values():
        assert make("a").nodes == ()
        assert make(["x"] * 3000).tokens == ("x",) * 3000


@given(st.integers(1, 40))
def test_balanced_trees_are_as_flat_as_can_be(n):
    assert balanced(["x"] * n).depth == (n - 1).bit_length()


def test_random_trees_split_anywhere_with_the_same_chance():
    splits = [at_random("abcde", seed).nodes[-1].split for seed in range(4000)]
    for split in (1, 2, 3, 4):
        assert splits.count(split) == pytest.approx(1000, abs=120)
    assert at_random("abcde", 1) == at_random("abcde", 1)


def test_gold_trees_of_listops_are_those_of_the_published_files():
    for tokens in islice(expressions(Recipe(max_tokens=60), "gold", "test"), 50):
        published = bracketed(tokens).replace("( ", "(").replace(" )", ")")
        assert str(gold_tree(tokens)) == published
        assert lists(tokens) <= gold_tree(tokens).spans()
        assert len(lists(tokens)) == tokens.count("]")
    assert str(gold_tree(["7"])) == "7"


def test_gold_trees_of_logic_join_what_is_in_parentheses_first():
    tokens = ["(", "(", "not", "a", ")", "(", "and", "b", ")", ")"]
    assert str(logic_tree(tokens)) == ("((-LRB- (((-LRB- (not a)) -RRB-) ((-LRB- (and b)) -RRB-))) -RRB-)")
    assert groups(tokens) == {(0, 10), (1, 5), (5, 9)}
    assert str(logic_tree(["a"])) == "a"
    assert str(logic_tree(["(", "a", ")"])) == "((-LRB- a) -RRB-)"
    assert str(logic_tree(["a", "b", "(", "c", "d", "e", ")"])) == "((a b) ((-LRB- ((c d) e)) -RRB-))"
    for _, pair in islice(pairs("gold", lambda pair: True), 50):
        for sentence in pair:
            assert groups(sentence) <= logic_tree(sentence).spans()
