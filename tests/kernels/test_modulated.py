"""Modulated decisions by kernels and in torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crvnn_parts.operations.modulated import FORMS, modulated
from crvnn_parts.retrievers.dense import AdhocDense
from twins import assert_twins, by_kernels, decisions, needs_kernels, numbers, some


def _modulated(form, mask, eligible, stretch=0.0):
    def deciding(find):
        return lambda u, e: modulated(u, find(e, mask), eligible, e * mask, form, stretch)

    return deciding(by_kernels), deciding(AdhocDense())


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.sampled_from([0.1, 1.0, 5.0]), st.sampled_from([0.0, 0.1, 0.5]), st.integers(0, 99))
def test_modulated_and_stretched_decisions_agree_with_torch(form, drawn, spread, stretch, seed):
    exists, mask, eligible = drawn
    run, twin = _modulated(form, mask, eligible, stretch)
    assert_twins(run, twin, (numbers(exists.shape, seed) * spread, exists))


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.booleans(), st.integers(0, 99))
def test_decisions_with_extreme_scores_agree_with_torch_and_do_not_overflow(form, drawn, large, seed):
    """Scores as far apart as those of a model that was trained for long, or very large ones."""
    exists, mask, eligible = drawn
    if large:
        scores = 80 * numbers(exists.shape, seed).clamp(-1, 1).round(decimals=2)
    else:
        scores = numbers(exists.shape, seed, torch.rand) * 71 - 31
    run, twin = _modulated(form, mask, eligible)
    assert_twins(run, twin, (scores, exists), plain=twin)


@needs_kernels
@pytest.mark.parametrize("height", [20.0, 40.0, 60.0])
def test_one_very_high_score_does_not_change_decisions_far_away(height):
    """Left(exp(u)) spans many orders of magnitude, and each position compares it with its own exp(u)."""
    scores, exists = torch.full((1, 12), 3.0), torch.full((1, 12), 0.375)
    scores[0, 1] = height
    mask = torch.ones(1, 12, dtype=torch.bool)
    run, twin = _modulated("bounded", mask, mask)
    assert_twins(run, twin, (scores, exists))
