"""Spans that are whole sequences elsewhere, compared with looking up every span in a set."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_core.model.batch import Vocabulary
from crvnn_parts.substitution import WholeSequences

SEQUENCES = st.lists(
    st.lists(st.sampled_from("abxy"), min_size=1, max_size=9).map(tuple), min_size=1, max_size=8
)
VOCABULARY = Vocabulary("ab")  # x and y are unknown


def whole_sequences(sequences):
    return WholeSequences([Example((sequence,), 0) for sequence in sequences], VOCABULARY)


def cohesion_slowly(sequence, known):
    cohesion = [0] * len(sequence)
    for start in range(len(sequence)):
        for end in range(start + 2, len(sequence) + 1):
            if sequence[start:end] in known and set(sequence[start:end]) <= {"a", "b"}:
                for place in range(start, end - 1):
                    cohesion[place] += 1
    return cohesion


@given(known=SEQUENCES, sequences=SEQUENCES)
def test_cohesion_counts_the_spans_that_are_in_the_set(known, sequences):
    found = whole_sequences(known).cohesion(VOCABULARY.encode(sequences)).tolist()
    for sequence, row in zip(sequences, found, strict=True):
        assert row[: len(sequence)] == cohesion_slowly(sequence, set(known))
        assert not any(row[len(sequence) :])


def test_both_sequences_of_a_pair_count():
    whole = WholeSequences([Example((tuple("ab"), tuple("ba")), 0)], VOCABULARY)
    assert whole.cohesion(VOCABULARY.encode([tuple("aba")])).tolist() == [[1, 1, 0]]


def test_different_sequences_have_different_hashes():
    vocabulary = Vocabulary([str(number) for number in range(100)])
    sequences = [(str(i), str(j)) for i in range(100) for j in range(100)]
    whole = WholeSequences([Example((sequence,), 0) for sequence in sequences], vocabulary)
    (hashes,) = whole._hashes.values()
    assert len(hashes.unique()) == 10_000


def test_no_sequences_give_no_cohesion():
    assert not whole_sequences([("a",)]).cohesion(VOCABULARY.encode([tuple("aab")])).any()
    assert whole_sequences([("a",)]).cohesion(VOCABULARY.encode([("a",)])).shape == torch.Size([1, 1])
