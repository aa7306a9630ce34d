"""Sentence vectors and probabilities of texts, in their order, whatever the batches."""

import copy

import pytest
import torch

from crvnn_core import InputError, Trained
from crvnn_core.display.progress import Lines

TEXTS = ["a b", "c d e f", "f", "b b b", "e a c d", "d", "c c a"]


def test_vectors_are_those_of_the_encoder_in_the_order_of_the_texts(letters):
    vectors = letters.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 8)
    assert not vectors.requires_grad
    for text, vector in zip(TEXTS, vectors, strict=True):
        encoding = letters.model.predict([text.split()]).encodings[0]
        assert torch.allclose(vector, encoding.vector[0], atol=1e-5)


def test_the_head_turns_vectors_into_the_probabilities(letters):
    with torch.no_grad():
        logits = letters.model.head(letters.encode(TEXTS))
    assert torch.allclose(logits.softmax(-1), letters.probabilities(TEXTS), atol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_size_of_batches_changes_nothing(letters, size):
    assert torch.allclose(letters.encode(TEXTS, batch_size=size), letters.encode(TEXTS), atol=1e-5)
    assert torch.allclose(
        letters.probabilities(TEXTS, batch_size=size), letters.probabilities(TEXTS), atol=1e-5
    )
    counted = []
    found = letters.predict(TEXTS, counted.append, batch_size=size)
    assert [prediction.text for prediction in found] == TEXTS
    assert max(counted) == min(size, len(TEXTS))
    assert sum(counted) == len(TEXTS)


def test_a_batch_has_at_least_one_text(letters):
    with pytest.raises(InputError, match="batch_size must be at least 1, not 0"):
        letters.encode(TEXTS, batch_size=0)


def test_probabilities_are_those_of_predictions(pairs):
    questions = [("a b", "c"), ("f", "f e d c"), ("a", "a")]
    rows = pairs.probabilities(questions).tolist()
    for row, prediction in zip(rows, pairs.predict(questions), strict=True):
        assert row == pytest.approx(list(prediction.probabilities.values()), abs=1e-5)


def test_single_texts_and_pairs_can_both_be_encoded(pairs):
    together = pairs.encode([("a b", "c"), ("f", "f e")])
    alone = pairs.encode(["a b", "c", "f", "f e"])
    assert together.shape == (2, 2, 8)
    assert torch.allclose(together.view(4, 8), alone, atol=1e-5)
    with pytest.raises(InputError, match="texts, or pairs of texts, not both at once"):
        pairs.encode([("a", "b"), "c"])


def test_no_texts_have_no_vectors(letters):
    assert letters.encode([]).shape == (0, 8)
    assert letters.probabilities([]).shape == (0, 2)


def test_hard_inference_has_other_vectors(letters):
    soft, hard = letters.encode(["a b c d"]), letters.encode(["a b c d"], hard=True)
    assert soft.shape == hard.shape
    assert not torch.equal(soft, hard)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a b", r"encode takes a list of texts: \['a b'\]"),
        (["a", " "], "text 2 is empty"),
        ([3], "text 1: .* not for 3"),
    ],
)
def test_what_is_no_text_is_refused(letters, texts, message):
    with pytest.raises(InputError, match=message):
        letters.encode(texts)


def test_a_model_in_training_mode_is_encoded_in_evaluation_mode_and_stays_as_it_was(letters):
    model = Trained(letters.spec, letters.task, copy.deepcopy(letters.model).train())
    assert torch.allclose(model.encode(TEXTS), letters.encode(TEXTS))
    assert model.model.training


def test_to_moves_the_model_and_returns_itself(letters):
    model = Trained(letters.spec, letters.task, copy.deepcopy(letters.model))
    assert model.to("meta") is model
    assert model.model.embed.weight.is_meta


def test_progress_is_shown_if_it_is_asked_for(letters, monkeypatch):
    shown = []

    class Count(Lines):
        def __init__(self, total, what, **options):
            super().__init__(total, what, **options)
            shown.append((what, total))

        def __call__(self, count=1):
            shown.append(count)

    monkeypatch.setattr("crvnn_core.display.progress.Lines", Count)
    letters.encode(TEXTS, progress=True, batch_size=5)
    letters.predict(TEXTS)
    assert shown == [("encoding", 7), 5, 2]


def test_texts_are_evaluated_with_their_labels(letters):
    labels = [prediction.label for prediction in letters.predict(TEXTS)]
    assert letters.evaluate(TEXTS, labels=labels).total.accuracy == 1
    assert letters.evaluate(TEXTS, labels=labels).total.examples == len(TEXTS)
    with pytest.raises(
        InputError, match=r"no class is called 'yess'\. Did you mean 'yes'\? There are no, yes"
    ):
        letters.evaluate(["a"], labels=["yess"])
    with pytest.raises(InputError, match="there are 7 texts and 1 labels"):
        letters.evaluate(TEXTS, labels=["yes"])
