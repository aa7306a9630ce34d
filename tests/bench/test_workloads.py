"""Inputs of measurements: lengths, batches, random tokens."""

from itertools import chain

import pytest

from crvnn_bench.workloads import Range, read_range, samples_of
from crvnn_core import InputError


@pytest.mark.parametrize(("text", "low", "high"), [("701-1000", 701, 1000), (" 1000 ", 1000, 1000)])
def test_lengths_are_a_range_or_one_number(text, low, high):
    assert read_range(text) == Range(low, high)


@pytest.mark.parametrize("text", ["", "long", "100-81", "3", "81-", "-5"])
def test_lengths_that_make_no_sense_are_refused(text):
    with pytest.raises(InputError, match="expected as 701-1000 or 1000"):
        read_range(text)


def test_samples_come_in_whole_batches_and_at_least_one():
    assert [len(batch) for batch in samples_of(Range(20, 30), 4, 10, seed=0)] == [4, 4]
    (batch,) = samples_of(Range(20, 30), 4, 1, seed=0)
    assert len(batch) == 4
    assert all(20 <= len(example.sequences[0]) <= 30 for example in batch)
    assert samples_of(Range(20, 30), 4, 1, seed=0) == [batch]
    assert samples_of(Range(20, 30), 4, 1, seed=1) != [batch]


def test_batches_of_similar_lengths_hold_the_same_expressions():
    similar, mixed = (
        list(chain(*samples_of(Range(10, 60), 4, 20, seed=0, similar=s))) for s in (True, False)
    )
    lengths = [len(example.sequences[0]) for example in similar]
    assert lengths == sorted(lengths)
    assert sorted(map(str, similar)) == sorted(map(str, mixed))
    assert similar != mixed
