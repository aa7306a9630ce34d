"""Compaction by kernels and in torch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.compaction import compact, survey
from crvnn_core.kernels import without
from twins import assert_twins, decisions, flags, lines, needs_kernels, numbers, some


@needs_kernels
@some
@given(lines(), st.sampled_from([1, 5, 70]), st.booleans(), st.integers(0, 99))
def test_compaction_is_that_of_torch(line, width, all_sequences, seed):
    exists, mask = line
    kept = mask & (numbers(mask.shape, seed, torch.rand) > 0.4)
    kept[:, 0] = True
    rows = list(range(len(mask))) if all_sequences else sorted({0, seed % len(mask)})
    size = int(kept[rows].sum(1).max())

    def run(v, e, g):
        return compact(v, e, g, kept, *flags(mask, seed), rows, size)

    given_ = (numbers((*exists.shape, width), seed), exists, numbers(exists.shape, seed + 1))
    assert_twins(lambda *inputs: run(*inputs)[:3], lambda *inputs: run(*inputs)[:3], given_, tolerance=0)
    got = run(*given_)
    with without():
        twin = run(*given_)
    assert [value.dtype for value in got] == [value.dtype for value in twin]
    assert all(map(torch.equal, got, twin))


@needs_kernels
@some
@given(decisions(), st.integers(0, 99))
def test_kept_positions_and_their_counts_are_those_of_torch(drawn, seed):
    exists, mask, eligible = drawn
    asked = numbers((len(mask),), seed) > 0
    got = survey(asked, exists * mask, mask, eligible)
    with without():
        twin = survey(asked, exists * mask, mask, eligible)
    assert all(map(torch.equal, got, twin))
    assert got[1].dtype == twin[1].dtype
