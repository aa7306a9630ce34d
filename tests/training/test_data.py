"""Data: tokens to numbers, examples to batches."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example, InputError, Task, UnknownNameError
from crvnn_core.model.batch import PADDING, UNKNOWN, Vocabulary, collate
from crvnn_core.training import data
from crvnn_core.training.data import batches, epoch_batches, evenly_spaced, split_examples

LETTERS = Vocabulary(["a", "b", "c"])


def test_padding_and_the_unknown_come_before_the_vocabulary():
    assert len(LETTERS) == 5
    assert LETTERS.encode([["a", "b", "c"]]).ids.tolist() == [[2, 3, 4]]
    assert (PADDING, UNKNOWN) == (0, 1)


@given(st.lists(st.lists(st.sampled_from("abcxyz"), min_size=1, max_size=9), min_size=1, max_size=5))
def test_lengths_and_tokens_survive_encoding(sequences):
    tokens = LETTERS.encode(sequences)
    assert tokens.mask.sum(1).tolist() == [len(sequence) for sequence in sequences]
    names = ["", "?", *LETTERS.tokens]
    for row, sequence in enumerate(sequences):
        got = [names[number] for number in tokens.ids[row, : len(sequence)].tolist()]
        assert got == [token if token in "abc" else "?" for token in sequence]


@pytest.mark.parametrize(
    ("sequences", "fault"),
    [
        ([["a"], ["b"], []], "sequence 2 is empty: there is nothing to encode"),
        ([], "there are no sequences to encode"),
        (["a b"], "sequence 0 is a string, not tokens"),  # it is not taken for its letters
    ],
)
def test_what_cannot_be_encoded_is_an_error_that_names_its_place(sequences, fault):
    with pytest.raises(InputError, match=fault):
        LETTERS.encode(sequences)


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


@pytest.mark.parametrize("number", [0, 7])
def test_batches_keep_the_order_and_the_last_may_be_smaller(number):
    got = list(batches(Counting(number), "train", 3, seed=0))
    assert [len(batch.labels) for batch in got] == [3, 3, 1][:number]
    assert [n for batch in got for n in batch.sequences[0].mask.sum(1).tolist()] == [1, 2, 3, 4, 5, 6, 7][
        :number
    ]


def test_batches_are_made_as_they_are_asked_for_and_may_use_the_vocabulary_of_a_model():
    first = next(batches(Counting(10**12), "train", 2, 4, Vocabulary(["b"])))
    assert first.sequences[0].mask.sum(1).tolist() == [5, 6]
    assert first.sequences[0].ids[0, :5].tolist() == [UNKNOWN] * 5


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
        (Example(("a b",), 1), "has a string for a sequence"),
        (Example((("a",),), 7), "has the label 7; labels are 0 to 1"),
        (Example((("a",),), "yes"), "has the label 'yes'"),
    ],
)
def test_a_wrong_example_is_named_by_its_place(bad, fault):
    with pytest.raises(InputError, match=f"example 1 of the split 'train' .*{fault}"):
        list(split_examples(Given(GOOD, bad), "train", 0))


def test_an_unknown_split_is_named():
    with pytest.raises(UnknownNameError, match=r"no split is called 'trian'\. Did you mean 'train'\?"):
        next(split_examples(Given(GOOD), "trian", 0))


@pytest.mark.parametrize("label", [np.int64(1), torch.tensor(1), True])
def test_labels_may_be_any_kind_of_whole_number(label):
    batch = collate(list(split_examples(Given(Example((["a", "b"],), label)), "train", 0)), LETTERS)
    assert batch.labels.tolist() == [1]
    assert batch.labels.dtype == torch.int64


# Batches of an epoch.


class Lengths(Task):
    """Examples of given lengths, told apart by their first token."""

    vocabulary, classes, splits = ("a",), ("no", "yes"), ("train",)

    def __init__(self, lengths):
        self.lengths = lengths

    def examples(self, split, seed):
        for number, length in enumerate(self.lengths):
            yield Example(((str(number), *"a" * (length - 1)),), number % 2)


def names(batches):
    return [[example.sequences[0][0] for example in batch] for batch in batches]


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_every_epoch_shows_each_example_exactly_once(lengths, size, seed, number):
    found = epoch_batches(Lengths(lengths), size, seed, number)
    shown = [name for batch in names(found) for name in batch]
    assert sorted(shown) == sorted(map(str, range(len(lengths))))
    sizes = sorted(map(len, found), reverse=True)
    assert sizes == [size] * (len(lengths) // size) + [len(lengths) % size] * bool(len(lengths) % size)


def test_batches_are_of_similar_lengths_and_not_in_the_order_of_lengths():
    generator = random.Random(0)
    lengths = [generator.randint(1, 100) for _ in range(1000)]
    found = epoch_batches(Lengths(lengths), 10, 0, 0)
    longest = [max(len(e.sequences[0]) for e in batch) for batch in found]
    shortest = [min(len(e.sequences[0]) for e in batch) for batch in found]
    assert sum(most - least for most, least in zip(longest, shortest, strict=True)) / len(found) < 5
    assert longest != sorted(longest)


def test_batches_may_go_short_to_long_within_every_ten_of_them():
    generator = random.Random(0)
    task = Lengths([generator.randint(1, 100) for _ in range(1000)])
    found = epoch_batches(task, 10, 0, 0, "short-to-long")
    assert sorted(name for batch in names(found) for name in batch) == sorted(map(str, range(1000)))
    for start in range(0, 100, 10):
        lengths = [len(e.sequences[0]) for batch in found[start : start + 10] for e in batch]
        assert lengths == sorted(lengths)
        assert min(lengths) < 20  # these are 100 random examples, of all lengths
        assert max(lengths) > 80


def test_the_order_follows_from_the_seed_and_the_epoch_alone():
    task = Lengths([3] * 50)
    assert names(epoch_batches(task, 8, 1, 2)) == names(epoch_batches(task, 8, 1, 2))
    others = [names(epoch_batches(task, 8, seed, number)) for seed in (0, 1) for number in (0, 1)]
    assert all(one != two for i, one in enumerate(others) for two in others[:i])


def test_batches_come_in_another_order_every_epoch_even_if_their_examples_do_not():
    class Steady(Lengths):
        def epoch(self, seed, number):
            return self.examples("train", seed)

    one, two = (names(epoch_batches(Steady(range(1, 41)), 5, 0, number)) for number in (0, 1))
    assert one != two
    assert sorted(one) == sorted(two)


def test_examples_of_one_length_meet_others_in_every_epoch():
    task = Lengths([3] * 50)
    companions = [
        {frozenset(batch) for batch in names(epoch_batches(task, 5, 0, number))} for number in (0, 1)
    ]
    assert companions[0] != companions[1]


def test_an_epoch_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(data, "MOST_EXAMPLES", 20)
    assert len(epoch_batches(Lengths([1] * 20), 5, 0, 0)) == 4
    with pytest.raises(InputError, match="an epoch has more than 20 examples, or never ends"):
        epoch_batches(Lengths([1] * 21), 5, 0, 0)


def test_a_wrong_example_of_an_epoch_is_named_by_its_place():
    class Wrong(Given):
        def epoch(self, seed, number):
            return self.given

    with pytest.raises(InputError, match="example 1 of epoch 3 has the label 9"):
        epoch_batches(Wrong(GOOD, Example((("a",),), 9)), 5, 0, 3)


@pytest.mark.parametrize(("count", "expected"), [(0, 10), (3, 3), (10, 10), (99, 10)])
def test_a_part_of_the_examples_is_evenly_spaced(count, expected):
    examples = [Example((("a",) * n,), 0) for n in range(1, 11)]
    part = evenly_spaced(examples, count)
    assert len(part) == expected
    if count == 3:
        assert [len(example.sequences[0]) for example in part] == [1, 4, 7]
