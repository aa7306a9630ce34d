"""The ListOps task: splits, epochs, settings and groups of results."""

from collections import Counter

import pytest

from crvnn_core import Example
from crvnn_tasks.listops.task import ListOps, split_of
from listops_reference import NAMES


def test_splits_are_disjoint_for_every_seed_and_epoch():
    task = ListOps(max_tokens=15, test_max_tokens=15, rows=2000, held_out=300)
    seen = {split: {e.sequences[0] for e in task.examples(split, seed=1)} for split in task.splits}
    assert {split: len(sequences) for split, sequences in seen.items()} == {
        "train": 2000,
        "dev": 300,
        "test": 300,
    }
    assert seen["train"].isdisjoint(seen["dev"] | seen["test"])
    assert seen["dev"].isdisjoint(seen["test"])
    for split, sequences in seen.items():
        assert all(split_of(tokens) == split for tokens in sequences)
    task = ListOps(max_tokens=8, rows=2000, held_out=100)
    train = {e.sequences[0] for seed in (1, 2) for number in (0, 1) for e in task.epoch(seed, number)}
    assert train.isdisjoint(e.sequences[0] for seed in (1, 2) for e in task.examples("dev", seed))


def test_every_epoch_has_new_expressions_or_the_same_in_another_order():
    task = ListOps(rows=500, min_tokens=20)
    epochs = [list(task.epoch(0, number)) for number in range(3)]
    assert [len(epoch) for epoch in epochs] == [500] * 3
    assert len({example.sequences for epoch in epochs for example in epoch}) == 1500
    assert list(ListOps(rows=500, min_tokens=20).epoch(0, 2)) == epochs[2]
    assert list(task.epoch(1, 0)) != epochs[0]
    task = ListOps(rows=500, fresh=False)
    first, second = list(task.epoch(0, 0)), list(task.epoch(0, 1))
    assert first != second
    assert Counter(first) == Counter(second) == Counter(task.examples("train", 0))


@pytest.mark.parametrize("fresh", [True, False])
def test_expressions_grow_from_epoch_to_epoch(fresh):
    task = ListOps(rows=400, fresh=fresh, growing=[8, 15], max_tokens=40)
    longest = [max(len(e.sequences[0]) for e in task.epoch(0, number)) for number in range(3)]
    assert longest[0] <= 8 < longest[1] <= 15 < longest[2] <= 40
    assert max(len(e.sequences[0]) for e in task.examples("train", 0)) > 15
    assert len(list(task.epoch(0, 0))) == 400 if fresh else len(list(task.epoch(0, 0))) < 400


def test_training_repeats_expressions_once_all_are_drawn_and_held_out_splits_end(monkeypatch):
    monkeypatch.setattr("crvnn_tasks.listops.recipe._ATTEMPTS", 20_000)
    tiny = ListOps(max_tokens=4, test_max_tokens=4, rows=1000)
    every = [(f"[{name}", one, two, "]") for name in NAMES for one in "0123456789" for two in "0123456789"]
    for split in ("dev", "test"):
        assert sorted(e.sequences[0] for e in tiny.examples(split, 0)) == sorted(
            tokens for tokens in every if split_of(tokens) == split
        )
    train = [e.sequences[0] for e in tiny.examples("train", 0)]
    expected = {tokens for tokens in every if split_of(tokens) == "train"}
    assert set(train[: len(expected)]) == set(train) == expected
    assert len(train) == 1000


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"rows": 0}, "rows must be at least 1, not 0"),
        ({"held_out": 0}, "held_out must be at least 1"),
        ({"max_tokens": 3}, "^max_tokens must be 0, or at least 4"),
        ({"max_tokens": -1}, "^max_tokens must be at least 0, not -1"),
        ({"min_tokens": 101}, r"^min_tokens must be 0, or at most max_tokens \(100\), not 101"),
        ({"min_tokens": -1}, "^min_tokens"),
        ({"test_max_tokens": 3}, "^test_max_tokens must be 0, or at least 4"),
        ({"test_min_tokens": 300, "test_max_tokens": 200}, "^test_min_tokens must be"),
        ({"max_arguments": 10}, "^test_max_tokens must be given: with max_arguments = 10"),
        (
            {"max_arguments": 15, "max_depth": 500, "test_max_tokens": 9, "max_tokens": 0},
            "^max_tokens must be given",
        ),
        ({"growing": [3]}, "growing: 3 is not between"),
        ({"growing": [12, 200]}, "growing: 200 is not between"),
        ({"min_tokens": 20, "growing": [12]}, "growing: 12 is not between"),
        ({"max_depth": 1}, "max_depth must be at least 2"),
        ({"min_arguments": 1}, "min_arguments must be at least 2"),
        ({"max_arguments": 2, "min_arguments": 3}, "max_arguments must be at least min_arguments"),
        ({"operator_probability": 0.0}, "operator_probability must be above 0 and below 1"),
        (
            {"max_depth": 4, "test_max_tokens": 50, "test_min_depth": 4},
            "^test_min_depth must be less than max_depth",
        ),
        ({"operator_probability": 1.0}, "operator_probability must be above 0 and below 1"),
    ],
)
def test_invalid_settings_are_refused(settings, what):
    with pytest.raises(ValueError, match=what):
        ListOps(**settings)


@pytest.mark.parametrize(
    ("length", "bucket"),
    [
        (1, "1-10"),
        (10, "1-10"),
        (11, "11-20"),
        (50, "21-50"),
        (100, "51-100"),
        (101, "101-200"),
        (300, "201-300"),
        (1000, "901-1000"),
        (1001, "1001+"),
        (5000, "1001+"),
    ],
)
def test_results_are_grouped_by_length(length, bucket):
    assert ListOps().bucket(Example((("1",) * length,), 1)) == bucket
