"""The engine's transition by kernels and in torch."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.engine.operations.transition import transition
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from twins import assert_twins, by_kernels, decisions, needs_kernels, numbers, some


@needs_kernels
@some
@given(decisions(), st.integers(0, 99))
def test_the_transition_agrees_with_torch(drawn, seed):
    exists, mask, eligible = drawn
    tokens = numbers(mask.shape, seed, torch.rand) > 0.2

    def run(find):
        def step(c, e):
            return transition(c, find(e, mask), e, eligible, mask & tokens)

        return step

    assert_twins(
        run(by_kernels), run(AdhocDense()), (numbers(exists.shape, seed + 1, torch.rand), exists * mask)
    )


def test_a_position_composed_with_probability_one_has_zero_existence():
    mask = torch.ones(1, 4, dtype=torch.bool)
    exists = torch.tensor([[0.3, 0.7, 1.0, 1e-30]])
    assert not transition(torch.ones(1, 4), Adhoc()(exists, mask), exists, mask, mask)[2].any()
