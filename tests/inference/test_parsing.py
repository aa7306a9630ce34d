"""What is known to be right about a user's text."""

import pytest

from crvnn_core.inference.parsing import agreement, read_gold
from crvnn_core.inference.trained import load
from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import Sentence


def test_the_value_and_the_tree_of_an_expression_are_known():
    gold = read_gold(load("listops"), "[MAX 2 [SM 9 9 ] ]")
    assert gold.label == "8"
    (sentence,) = gold.sentences
    assert str(sentence.gold) == "((([MAX 2) ((([SM 9) 9) ])) ])"
    plain = gold.plain([sentence.gold])
    assert (plain["label"], plain["agreement"]) == ("8", ["This is the gold tree."])
    assert plain["trees"][0] == sentence.gold.plain()


def test_of_a_text_about_which_the_task_says_nothing_nothing_is_known(letters):
    assert read_gold(letters, "a b c").plain([None]) == {"label": None, "trees": [None], "agreement": [""]}


GOLD = Sentence(Tree.of(((("a", "b"), "c"), "d")), frozenset({(0, 2), (0, 4)}))


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (Tree.of(((("a", "b"), "c"), "d")), "This is the gold tree."),
        (Tree.of((("a", "b"), ("c", "d"))), "Gold constituents: 1 of 2; those bracketed in the input: 1 of 1."),
        (Tree.of(("a", ("b", ("c", "d")))), "Gold constituents: 0 of 2; those bracketed in the input: 0 of 1."),
        (Tree.of(("a", ("b", "c"))), ""),
        (None, ""),
    ],
)  # fmt: skip
def test_agreement_counts_the_constituents_that_not_every_tree_has(tree, said):
    assert agreement(tree, GOLD) == said
    assert agreement(tree, None) == ""
