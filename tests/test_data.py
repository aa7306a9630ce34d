"""Data: tokens to numbers, examples to batches."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example, InputError, Task, UnknownNameError
from crvnn_core.data import PADDING, UNKNOWN, Vocabulary, batches, collate

LETTERS = Vocabulary(["a", "b", "c"])


def test_padding_and_the_unknown_come_before_the_vocabulary():
    assert len(LETTERS) == 5
    assert LETTERS.encode([["a", "b", "c"]]).ids.tolist() == [[2, 3, 4]]
    assert (PADDING, UNKNOWN) == (0, 1)


def test_sequences_are_padded_on_the_right():
    tokens = LETTERS.encode([["a"], ["b", "c", "b"]])
    assert tokens.ids.tolist() == [[2, 0, 0], [3, 4, 3]]
    assert tokens.mask.tolist() == [[True, False, False], [True, True, True]]
    assert tokens.ids.dtype == torch.long


def test_tokens_outside_the_vocabulary_share_one_number_and_are_not_padding():
    tokens = LETTERS.encode([["x", "a", "y"]])
    assert tokens.ids.tolist() == [[UNKNOWN, 2, UNKNOWN]]
    assert bool(tokens.mask.all())


@given(st.lists(st.lists(st.sampled_from("abcxyz"), min_size=1, max_size=9), min_size=1, max_size=5))
def test_lengths_and_tokens_survive_encoding(sequences):
    tokens = LETTERS.encode(sequences)
    assert tokens.mask.sum(1).tolist() == [len(sequence) for sequence in sequences]
    names = ["", "?", *LETTERS.tokens]
    for row, sequence in enumerate(sequences):
        got = [names[number] for number in tokens.ids[row, : len(sequence)].tolist()]
        assert got == [token if token in "abc" else "?" for token in sequence]


def test_an_empty_sequence_is_an_error_that_names_its_place():
    with pytest.raises(InputError, match="sequence 2 is empty: there is nothing to encode"):
        LETTERS.encode([["a"], ["b"], []])


def test_no_sequences_at_all_are_an_error():
    with pytest.raises(InputError, match="there are no sequences to encode"):
        LETTERS.encode([])


def test_pairs_become_two_columns():
    batch = collate([Example((("a",), ("b", "c")), 1), Example((("c", "c"), ("a",)), 0)], LETTERS)
    first, second = batch.sequences
    assert first.ids.tolist() == [[2, 0], [4, 4]]
    assert second.ids.tolist() == [[3, 4], [2, 0]]
    assert batch.labels.tolist() == [1, 0]


def test_examples_with_one_and_with_two_sequences_do_not_mix():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        collate([Example((("a",),), 0), Example((("a",), ("b",)), 0)], LETTERS)


def test_a_batch_moves_to_a_device_whole():
    moved = collate([Example((("a",), ("b",)), 0)], LETTERS).to("meta")
    assert moved.labels.is_meta
    assert all(tokens.ids.is_meta and tokens.mask.is_meta for tokens in moved.sequences)


class Counting(Task):
    vocabulary = ("a",)
    classes = ("even", "odd")

    def __init__(self, number):
        self.number = number

    def examples(self, split, seed):
        for n in range(self.number):
            yield Example((("a",) * (seed + n + 1),), n % 2)


def test_batches_keep_the_order_and_the_last_may_be_smaller():
    got = list(batches(Counting(7), "train", 3, seed=0))
    assert [len(batch.labels) for batch in got] == [3, 3, 1]
    assert [n for batch in got for n in batch.sequences[0].mask.sum(1).tolist()] == [1, 2, 3, 4, 5, 6, 7]


def test_batches_are_made_as_they_are_asked_for():
    first = next(iter(batches(Counting(10**12), "train", 2, seed=4)))
    assert first.sequences[0].mask.sum(1).tolist() == [5, 6]


def test_a_split_without_examples_has_no_batches():
    assert list(islice(batches(Counting(0), "train", 3, seed=0), 5)) == []


class Given(Task):
    vocabulary, classes, splits = ("a", "b"), ("no", "yes"), ("train",)

    def __init__(self, *examples):
        self.given = examples

    def examples(self, split, seed):
        return iter(self.given)


GOOD = Example((("a", "b"),), 1)


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        ((("a",), 1), "not a crvnn_core.Example"),
        (Example((("a",), ("b",)), 1), "has 2 sequences; the task's arity is 1"),
        (Example(((),), 1), "has an empty sequence"),
        (Example(("a b",), 1), "has a text for a sequence"),
        (Example((("a",),), 7), "has the label 7; labels are 0 to 1"),
        (Example((("a",),), "yes"), "has the label 'yes'"),
    ],
)
def test_a_wrong_example_is_named_by_its_place(bad, fault):
    with pytest.raises(InputError, match=f"example 1 of the split 'train' .*{fault}"):
        list(batches(Given(GOOD, bad), "train", 4, 0))


def test_an_unknown_split_is_named():
    with pytest.raises(UnknownNameError, match=r"no split is called 'trian'\. Did you mean 'train'\?"):
        next(batches(Given(GOOD), "trian", 4, 0))


def test_a_text_is_not_taken_for_its_letters():
    with pytest.raises(InputError, match="sequence 0 is a text, not tokens"):
        Vocabulary(["a"]).encode(["a b"])


@pytest.mark.parametrize("label", [np.int64(1), torch.tensor(1), True])
def test_labels_may_be_any_kind_of_whole_number(label):
    batch = next(batches(Given(Example((["a", "b"],), label)), "train", 1, 0))
    assert batch.labels.tolist() == [1]
    assert batch.labels.dtype == torch.int64
