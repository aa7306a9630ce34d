"""Scores of the trees of trained models, from Python."""

import pytest
import torch

import small
from crvnn_core import Decision, InputError
from crvnn_core.inference.trained import load
from crvnn_core.inference.tree_scores import MOST_TOKENS, faithfulness, score_trees
from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import BASELINES


@pytest.fixture(scope="module")
def guided():
    return load("listops-guided", sets=["task.held_out=5", "task.test_max_tokens=12"])


def test_scores_are_by_run_and_baseline_and_hard_ones_apart(guided):
    told = []
    examples = guided.examples("test")
    found = score_trees({"mine": guided, "again": guided}, examples, hard=True, done=told.append)
    assert list(found.scores) == ["mine", "again", *BASELINES]
    assert list(found.scores_hard) == ["mine", "again"]
    assert found.scores["mine"].exact == found.scores_hard["mine"].exact == 1
    assert found.agreement == found.agreement_hard == 1
    assert sum(told) == 6 * len(examples)
    assert found.conflicts == {"mine": 0, "again": 0}
    assert found.faithfulness == pytest.approx({"mine": 1, "again": 1})
    assert found.plain()["scores"]["mine"] == found.scores["mine"].plain()


def test_without_gold_trees_there_are_faithfulness_and_conflicts(letters_run, small_catalog):
    letters = load(letters_run, small_catalog)
    found = score_trees({"letters": letters}, letters.examples("dev"))
    assert found.scores == {}
    assert found.faithfulness.keys() == found.conflicts.keys() == {"letters"}


def test_texts_are_scored_as_examples_are(guided):
    texts = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[SM 1 2 ]"]
    found = score_trees({"mine": guided}, texts)
    assert found == score_trees({"mine": guided}, [guided.example(text) for text in texts])
    assert found.scores["mine"].exact == 1
    assert found.sequences == 2
    assert (found.agreement, found.agreement_hard, found.scores_hard) == (
        None,
        None,
        {},
    )  # nothing to compare


@pytest.mark.parametrize(
    ("models", "texts", "what"),
    [
        ("mine", "[MAX 2 9 ]", r"score_trees takes a list of texts: \['\[MAX 2 9 \]'\]"),
        ("mine", ["[MAX 2 ]", 3], "text 2: the task asks for a text, not for 3"),
        ("mine", [("[MAX 2 ]", "[MAX 3 ]")], "text 1: the task asks for a text, not for"),
        (None, ["[MAX 2 9 ]"], r"score_trees takes models by name, as in \{'mine': model\}, not "),
        ("", ["[MAX 2 9 ]"], r"score_trees takes models by name, as in \{'mine': model\}, not \{\}"),
    ],
)
def test_what_is_neither_a_text_nor_an_example_is_one_clear_error(guided, models, texts, what):
    with pytest.raises(InputError, match=what):
        score_trees(guided if models is None else {models: guided} if models else {}, texts)


LETTERS = tuple("abcdefab")


class OneByOne(Decision):
    """Composes the first that is left with the second, for sure."""

    def forward(self, scores, near, eligible, exists):
        there = exists * eligible
        return ((there > 0) & (there.cumsum(1) == 1)).to(scores.dtype) + 0 * scores


def model_with(decision, *sets):
    return small.variant("model.halting=never", *sets, decision=decision).model.eval()


def slow(model, tree):
    """The formula, a token at a time."""
    ids = model.vocabulary.encode([tree.tokens])
    inputs = model.project(model.embed(ids.ids)).detach()
    signs = torch.randint(0, 2, (8,), generator=torch.Generator().manual_seed(0)) * 2.0 - 1
    levels = torch.zeros_like(ids.ids)
    for node, height in zip(tree.nodes, tree.heights(), strict=True):
        levels[0, node.split - 1] = height
    gradients = []
    for options in ({}, {"levels": levels}):
        leaves = [inputs[:, i].clone().requires_grad_() for i in range(len(tree.tokens))]
        vector = model.encoder(torch.stack(leaves, 1), ids.mask, **options).vector[0]
        gradients.append(torch.autograd.grad(vector @ signs, leaves))
    shares = [
        (2 * (one * two).sum() / ((one**2).sum() + (two**2).sum())).item()
        for one, two in zip(*gradients, strict=True)
    ]
    return sum(shares) / len(shares)


def test_a_tree_that_was_composed_is_wholly_faithful_and_another_is_not():
    model = model_with(OneByOne)
    assert faithfulness(model, [Tree.joining(LETTERS, range(7))]) == pytest.approx(1, abs=1e-6)
    assert faithfulness(model, [Tree.joining(LETTERS, reversed(range(7)))]) < 0.9


def test_a_tree_whose_tokens_were_lost_is_faithful_at_most_to_those_that_were_not():
    tree = Tree.joining(LETTERS, range(7))
    assert 0 < faithfulness(model_with(small.Eager), [tree]) <= 2 / 8


def test_it_is_the_mean_of_the_formula_over_trees_of_any_length():
    model = small.variant().model.eval()
    trees = [
        Tree.joining(LETTERS[:n], torch.randperm(n - 1, generator=torch.Generator().manual_seed(n)).tolist())
        for n in (2, 8, 3, 5)
    ]
    expected = sum(slow(model, tree) for tree in trees) / len(trees)
    assert faithfulness(model, trees) == pytest.approx(expected, abs=1e-5)


def test_single_tokens_and_very_long_trees_are_left_out_and_all_are_counted():
    model, told = small.variant().model, []
    long = Tree.joining("a" * (MOST_TOKENS + 1), range(MOST_TOKENS))
    assert faithfulness(model, [Tree.of("a"), long], told.append) is None
    assert sum(told) == 2
    assert model.training  # as it was
    balanced = small.variant("model.encoder=balanced").model  # which cannot compose along given trees
    assert faithfulness(balanced, [Tree.of((("a", "b"), "c"))]) is None
