"""Batches within a budget of tokens, and running out of memory."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_core.model.batch import Vocabulary, collate
from crvnn_core.training.data import example_length, out_of_memory, padded_size, within_budget

LETTERS = Vocabulary(["a", "b", "c"])
PAIRS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 12)).map(
        lambda n: Example((("a",) * n[0], ("a",) * n[1]), 0)
    ),
    min_size=1,
    max_size=20,
)


@given(PAIRS, st.integers(1, 80))
def test_a_budget_is_kept_unless_one_example_alone_is_too_large(examples, tokens):
    groups = within_budget(examples, tokens)
    assert sorted(index for group in groups for index in group) == list(range(len(examples)))
    for group in groups:
        assert padded_size([examples[index] for index in group]) <= tokens or len(group) == 1


@given(PAIRS)
def test_without_a_budget_there_is_one_group_as_it_was(examples):
    assert within_budget(examples, 0) == [list(range(len(examples)))]


def test_a_budget_groups_examples_of_similar_lengths_from_short_to_long():
    examples = [Example((("a",) * n,), 0) for n in (5, 1, 3, 1, 4)]
    assert within_budget(examples, 8) == [[1, 3], [2, 4], [0]]


@given(PAIRS)
def test_the_size_of_a_batch_is_that_of_its_tensors(examples):
    batch = collate(examples, LETTERS)
    assert padded_size(examples) == sum(tokens.ids.numel() for tokens in batch.sequences)
    assert example_length(examples[0]) == sum(map(len, examples[0].sequences))


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error, found):
    assert out_of_memory(error) is found
