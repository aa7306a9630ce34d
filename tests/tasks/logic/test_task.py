"""The task of propositional inference: splits, epochs and settings."""

import random
from collections import Counter
from itertools import islice

import pytest

from crvnn_tasks.logic.language import operations, pairs, renamed
from crvnn_tasks.logic.task import Logic
from logic_reference import PATTERNS

SETTINGS = {"rows": 1500, "held_out": 120}


@pytest.mark.parametrize("setting", ["length", "A", "B", "C"])
def test_splits_have_the_sizes_that_are_set_and_are_disjoint(setting):
    task = Logic(setting=setting, **SETTINGS)
    seen = {split: {e.sequences for e in task.examples(split, 1)} for split in task.splits}
    assert {split: len(found) for split, found in seen.items()} == {"train": 1500, "dev": 120, "test": 120}
    assert len(set().union(*seen.values())) == 1740
    other = {e.sequences for e in task.examples("train", 2)}
    assert other != seen["train"]
    assert other.isdisjoint(seen["dev"] | seen["test"])


def test_length_is_tested_on_more_operations_than_were_trained_on():
    task = Logic(**SETTINGS)
    for split in ("train", "dev"):
        assert {operations(e.sequences) for e in task.examples(split, 0)} <= set(range(7))
    assert Counter(task.bucket(e) for e in task.examples("test", 0)) == {str(n): 20 for n in range(7, 13)}
    shorter = Logic(train_operations=3, rows=1500, held_out=100)
    assert {operations(e.sequences) for e in shorter.examples("train", 0)} <= {0, 1, 2, 3}
    tested = Counter(task.bucket(e) for e in shorter.examples("test", 0))
    assert sorted(tested, key=int) == [str(n) for n in range(4, 13)]
    assert sum(tested.values()) == 100
    assert set(tested.values()) == {11, 12}


@pytest.mark.parametrize("setting", ["A", "B", "C"])
def test_systematicity_is_tested_on_patterns_that_training_never_has(setting):
    task = Logic(setting=setting, **SETTINGS)
    for split in task.splits:
        for example in task.examples(split, 0):
            found = any(PATTERNS[setting](" ".join(sentence)) for sentence in example.sequences)
            assert found == (split == "test")
            assert operations(example.sequences) <= 6


def test_a_tenth_of_the_pairs_is_held_out_for_development():
    task = Logic()
    splits = Counter(task.split_of(pair) for _, pair in islice(pairs("1", lambda pair: True), 6000))
    assert splits["dev"] / (splits["dev"] + splits["train"]) == pytest.approx(0.1, abs=0.015)


def test_epochs_are_shuffled_or_new():
    task = Logic(rows=300)
    first, second = list(task.epoch(0, 0)), list(task.epoch(0, 1))
    assert first != second
    assert Counter(first) == Counter(second) == Counter(task.examples("train", 0))
    fresh = Logic(rows=300, fresh=True)
    first, second = list(fresh.epoch(0, 0)), list(fresh.epoch(0, 1))
    assert len(first) == len(second) == 300
    assert len({*first, *second}) > 500
    assert list(Logic(rows=300, fresh=True).epoch(0, 1)) == second


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"train_operations": 0}, "train_operations must be at least 1 and at most 12, not 0"),
        ({"train_operations": 12}, "train_operations must be between 1 and 11, not 12"),
        (
            {"train_operations": 13, "setting": "A"},
            "train_operations must be at least 1 and at most 12, not 13",
        ),
        ({"rows": 0}, "rows must be at least 1"),
        ({"held_out": 0}, "held_out must be at least 1"),
        ({"setting": "A", "rename": True}, "rename must be false in setting A"),
    ],
)
def test_invalid_settings_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        Logic(**settings)


@pytest.mark.parametrize(
    ("left", "right", "relation"),
    [
        ("a", "a", "="),
        ("( a ( and b ) )", "a", "<"),
        ("( not a )", "a", "^"),
        ("a", "b", "#"),
        ("( a ( or ( not a ) ) )", "b", None),  # a tautology has no relation
        ("a b", "b", None),  # balanced, but not a sentence
    ],
)
def test_the_relation_of_typed_sentences_is_computed_where_they_have_one(left, right, relation):
    task = Logic()
    label = task.gold_label((task.tokenize(left), task.tokenize(right)))
    assert (None if label is None else task.classes[label]) == relation


def test_renamed_pairs_are_new_in_each_epoch_and_have_the_relation_that_their_truth_tables_have():
    plain, task = Logic(rows=400), Logic(rows=400, rename=True)
    first, second = list(task.epoch(1, 0)), list(task.epoch(1, 1))
    assert first == list(Logic(rows=400, rename=True).epoch(1, 0))
    assert sorted(first, key=str) != sorted(second, key=str)
    assert all(task.gold_label(example.sequences) == example.label for example in first + second)
    assert len({e.sequences for e in first} - {e.sequences for e in plain.examples("train", 1)}) > 200
    assert Counter(map(task.bucket, first)) == Counter(map(plain.bucket, plain.examples("train", 1)))
    assert list(task.examples("dev", 1)) == list(plain.examples("dev", 1))


def test_renaming_exchanges_the_sentences_half_of_the_time():
    pair = (("a",), ("(", "a", "(", "or", "b", ")", ")"))
    shapes = Counter(
        (label, len(found[0])) for label, found in (renamed("<", pair, random.Random(n)) for n in range(400))
    )
    assert set(shapes) == {("<", 1), (">", len(pair[1]))}
    assert min(shapes.values()) > 150


def test_variables_are_not_renamed_where_that_would_show_the_test_pairs():
    task = Logic(setting="C", rename=True, rows=300, held_out=20)
    assert not any(PATTERNS["C"](" ".join(s)) for example in task.epoch(0, 0) for s in example.sequences)
