"""Inspection: what a model did with one input."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from crvnn_core import CrvnnError, InputError
from crvnn_core.inference.inspection import agreement, inspect, neighbours, read_gold
from crvnn_core.inference.part_exchange import exchange_parts
from crvnn_core.inference.trained import load
from crvnn_core.training.trainer import train
from crvnn_core.trees import Tree
from crvnn_core.trees.scoring import Sentence
from small import Averaging
from small import variant as small_variant


@settings(max_examples=15)
@given(st.lists(st.sampled_from("abcdefx"), min_size=1, max_size=9), st.booleans())
def test_what_is_inspected_is_what_is_predicted(letters, tokens, hard):
    text = " ".join(tokens)
    answer, prediction = inspect(letters, text, hard=hard), letters.predict([text], hard=hard)[0]
    assert answer.label == prediction.label
    assert answer.probabilities == pytest.approx(prediction.probabilities, abs=1e-6)
    assert tuple(sequence.tree for sequence in answer.sequences) == prediction.trees
    assert answer.sequences[0].tokens == tuple(tokens)
    assert answer.sequences[0].unknown == tuple(token == "x" for token in tokens)


def test_existence_follows_from_what_was_composed(letters):
    (inspected,) = inspect(letters, "c d e f a").sequences
    assert len(inspected.exists) == len(inspected.compose) + 1 > 1
    assert inspected.exists[0] == [1.0] * 5
    for before, compose, after in zip(
        inspected.exists[:-1], inspected.compose, inspected.exists[1:], strict=True
    ):
        assert [e * (1 - c) for e, c in zip(before, compose, strict=True)] == pytest.approx(after, abs=1e-6)


def test_both_sequences_of_a_pair_are_inspected_each_with_its_own_steps(pairs):
    answer = inspect(pairs, ("a", "c d e f"))
    assert [len(sequence.exists[0]) for sequence in answer.sequences] == [1, 4]
    one, two = (len(sequence.compose) for sequence in answer.sequences)
    assert one == 0 < two


@pytest.mark.parametrize(("retriever", "dense"), [("adhoc", "adhoc-dense"), ("log-space", "log-space-dense")])
@pytest.mark.parametrize("edge", [True, False])
def test_weights_are_those_of_the_equations(tmp_path, retriever, dense, edge):
    catalog = small.catalog_with()
    assembly = small_variant(f"model.retriever={retriever}", f"model.encoder.boundaries={str(edge).lower()}")
    train(assembly, tmp_path / "run")
    trained = load(tmp_path / "run", catalog)
    (inspected,) = inspect(trained, "c d e f a b", weights=True).sequences
    assert len(inspected.left) == len(inspected.right) == len(inspected.compose)
    oracle = exchange_parts(trained, catalog, {"retriever": dense}).model.encoder.retriever
    for exists, left, right in zip(inspected.exists, inspected.left, inspected.right, strict=False):
        row = torch.tensor([[1.0] * edge + exists + [1.0] * edge])
        near = oracle(row, torch.ones_like(row, dtype=torch.bool))
        inner = slice(int(edge), int(edge) + 6)
        assert torch.allclose(torch.tensor(left), near.to_left[0, inner, inner].float(), atol=1e-5)
        assert torch.allclose(torch.tensor(right), near.to_right[0, inner, inner].float(), atol=1e-5)


def test_where_everything_exists_the_neighbours_are_next_door(letters):
    left, right = neighbours(letters, [1.0] * 4)
    assert torch.allclose(torch.tensor(left), torch.ones(3).diag(-1), atol=1e-6)
    assert torch.allclose(torch.tensor(right), torch.ones(3).diag(1), atol=1e-6)


def test_hard_neighbours_are_the_next_that_are_left_however_far(letters, small_catalog):
    near_sighted = exchange_parts(letters, small_catalog, {"retriever": "windowed"}, ["model.retriever.k=1"])
    left, right = neighbours(near_sighted, [1.0, 0.0, 0.0, 1.0], hard=True)
    assert left == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert right == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]


def test_plain_data_can_be_written_as_json(letters):
    answer = inspect(letters, "c x e", weights=True)
    read = json.loads(json.dumps(answer.plain(), allow_nan=False))
    assert read["label"] == answer.label
    (sequence,) = read["sequences"]
    assert sequence["tokens"] == ["c", "x", "e"]
    assert sequence["unknown"] == [False, True, False]
    assert sequence["exists"] == [pytest.approx(row, abs=1e-6) for row in answer.sequences[0].exists]
    assert len(sequence["left"]) == len(sequence["compose"])


def test_an_encoder_without_a_trace_has_no_steps_and_no_tree(tmp_path):
    assembly = small_variant(encoder=Averaging)
    train(assembly, tmp_path / "run")
    trained = load(tmp_path / "run", small.catalog_with(encoder=Averaging))
    (inspected,) = inspect(trained, "c d x", weights=True).sequences
    assert (inspected.exists, inspected.compose, inspected.tree) == ([], [], None)
    assert inspected.left is inspected.right is None
    assert inspected.unknown == (False, False, True)
    with pytest.raises(InputError, match="'mine' offers no neighbours to show"):
        neighbours(trained, [1.0, 1.0])
    with pytest.raises(CrvnnError, match="'mine' offers no hard inference"):
        inspect(trained, "c", hard=True)


def test_numbers_out_of_reach_are_a_clear_error(letters, small_catalog):
    sets = ["model.decision.end=1e-45", "model.decision.start=1e-45"]
    extreme = exchange_parts(letters, small_catalog, {"decision": "tempered"}, sets)
    with pytest.raises(InputError, match="the model computed NaN"):
        inspect(extreme, "c d e f a")


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
