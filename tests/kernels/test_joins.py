"""Binary decisions by kernels and in torch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.joins import join
from crvnn_core.kernels import without
from twins import lines, needs_kernels, numbers, some


@needs_kernels
@some
@given(lines(), st.sampled_from(["none", "some", "all"]), st.integers(0, 99))
def test_binary_joins_are_those_of_torch(line, closing, seed):
    _, present = line
    tokens = present & (torch.arange(present.shape[1]) > 0)
    eligible = tokens & (torch.arange(present.shape[1]) < present.sum(1, keepdim=True) - 2)
    compose = (numbers(present.shape, seed, torch.rand) * 9).floor() / 8  # often exactly a half
    exists = 0.5 ** (numbers(present.shape, seed + 1, torch.rand) * 3).floor()
    over = torch.arange(len(present)) % 2 < {"none": 0, "some": 1, "all": 2}[closing]
    given_ = (compose, exists, eligible, tokens, present, over)
    got = join(*given_)
    with without():
        twin = join(*given_)
    assert [value.dtype for value in got] == [value.dtype for value in twin]
    assert all(map(torch.equal, got, twin))
