"""Trees and steps of single inputs."""

import re

import pytest

import small
from crvnn_core.training.trainer import train
from crvnn_core.trees import Tree
from reporting import page_of, report
from small import Letters


def test_a_text_of_the_user_is_shown_with_its_unknown_tokens(both):
    outline, _ = both
    inside = outline.section("examples")
    assert "a b zz" in inside
    assert "Not in the vocabulary: zz" in inside
    assert "Heat map of existence e over steps" in inside


def test_a_pair_shows_both_of_its_sequences(small_catalog, pairs_run):
    outline = report(small_catalog, pairs_run, texts=["a b c", "b c"], trees=0)
    trees = [element for element in outline.all("svg") if "crvnn-tree" in element[1]["class"]]
    assert [element[2].split("\n")[1] for element in trees] == ["Tree over 3 tokens", "Tree over 2 tokens"]


def test_an_encoder_without_a_tree_says_so(small_catalog, tmp_path):
    train(
        small.variant("model.encoder=lstm", "training.steps=2", "training.evaluate_every=2"), tmp_path / "a"
    )
    outline = report(small_catalog, tmp_path / "a")
    assert "This encoder gives no tree." in outline.section("examples")
    assert "Heat map" not in outline.section("examples")


class Gold(Letters):
    """Letters whose gold tree is left-branching, with only the first two bracketed by the input itself."""

    def gold(self, example):
        (tokens,) = example.sequences
        nested = tokens[0]
        for token in tokens[1:]:
            nested = (nested, token)
        return (Tree.of(nested),)

    def constituents(self, example):
        return (frozenset({(0, 2), (0, len(example.sequences[0]))}),)


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        ("left-to-right", "This is the gold tree."),
        (
            "balanced",
            "Gold constituents: 1 of 2; those bracketed in the input: 1 of 1.",
        ),
    ],
)
def test_a_tree_is_compared_with_the_gold_tree(tmp_path, encoder, said):
    settings = ("task=mine", f"model.encoder={encoder}", "training.steps=2", "training.evaluate_every=2")
    train(small.variant(*settings, task=Gold), tmp_path / "a")
    outline = report(small.catalog_with(task=Gold), tmp_path / "a", texts=["a b c d"], trees=0)
    assert said in outline.section("examples")


def test_one_correct_and_one_wrong_example_are_open_and_all_texts_are(small_catalog, letters_run):
    def opened(**options):
        shown = page_of(small_catalog, letters_run, **options)
        return re.findall(r'<article class="example"><details( open)?>', shown)

    assert opened(trees=5).count(" open") in (1, 2)
    assert opened(trees=5)[0] == " open"
    assert opened(trees=2, texts=["a b", "a", "c"]) == [" open", " open", " open", "", ""]


def test_a_typed_expression_is_said_to_be_correct_and_its_gold_tree_is_drawn(catalog):
    outline = report(catalog, "listops", texts=["[MAX 2 9 ]"], examples=0)
    inside = " ".join(outline.section("examples").split())
    assert "True label: 9" in inside
    assert "✓ correct" in inside
    (column,) = [element for element in outline.all("details") if element[2].startswith("Gold tree")]
    assert "((([MAX 2) 9) ])" in column[2]


def test_of_a_text_that_the_task_cannot_judge_nothing_is_said(both):
    outline, _ = both
    (example,) = [element for element in outline.all("article") if "a b zz" in element[2]]
    assert not any(word in example[2] for word in ("True label", "correct", "wrong", "Gold tree"))


def test_conflicts_are_marked_in_the_tree_and_told_below_it(small_catalog, eager_run, both):
    outline = report(small_catalog, eager_run, texts=["a b c d"], trees=0)
    assert "2 conflicts: 'a' (token 1, step 1), 'b' (token 2, step 1)." in outline.section("examples")
    kinds = [attributes["class"] for _, attributes, _ in outline.all("g") if "data-split" in attributes]
    assert kinds == ["node conflict", "node conflict", "node"]
    assert "2 conflicts" not in both[0].section("examples")
