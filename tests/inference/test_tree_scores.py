"""Scores of the trees of trained models, from Python."""

import pytest

from crvnn_core import InputError
from crvnn_core.inference.trained import load
from crvnn_core.inference.tree_scores import score_trees
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


def test_one_run_agrees_with_no_other_and_is_not_parsed_hard_unless_asked(guided):
    found = score_trees({"mine": guided}, guided.examples("test"))
    assert (found.agreement, found.agreement_hard, found.scores_hard) == (None, None, {})


def test_without_gold_trees_there_are_faithfulness_and_conflicts(letters_run, small_catalog):
    letters = load(letters_run, small_catalog)
    found = score_trees({"letters": letters}, letters.examples("dev"))
    assert found.scores == {}
    assert found.faithfulness.keys() == found.conflicts.keys() == {"letters"}


def test_texts_are_scored_as_examples_are(guided):
    texts = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[SM 1 2 ]"]
    found = score_trees({"mine": guided}, texts)
    assert found == score_trees({"mine": guided}, [guided.question(text) for text in texts])
    assert found.scores["mine"].exact == 1
    assert found.sequences == 2


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
