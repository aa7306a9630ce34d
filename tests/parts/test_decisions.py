"""Decisions against their formulas."""

import math

import pytest
import torch

from crvnn_core import set_progress
from crvnn_core.testing.oracles import matrices
from crvnn_parts.decisions.sigmoids import (
    GumbelSigmoid,
    Modulated,
    Sigmoid,
    StraightThrough,
    Stretched,
    Tempered,
)
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from published_encoder import composition, neighbours
from twins import numbers

EXISTS = torch.tensor([[1.0, 0.9, 0.3, 0.6, 1.0, 1.0]])
SCORES = torch.tensor([[0.4, 1.5, -0.7, 0.2, 0.9, -2.0]])
ELIGIBLE = torch.tensor([[False, True, True, True, False, False]])  # START, three tokens, the last, END
NEAR = matrices(EXISTS)


def test_sigmoid_is_a_sigmoid():
    expected = torch.sigmoid(SCORES) * ELIGIBLE
    torch.testing.assert_close(Sigmoid()(SCORES, NEAR, ELIGIBLE, EXISTS), expected)


def test_the_papers_form_compares_with_the_neighbours_expected_scores():
    u, left, right = SCORES, NEAR.left(SCORES), NEAR.right(SCORES)
    expected = u.exp() / (u.exp() + left.exp() + right.exp() + 1) * ELIGIBLE
    torch.testing.assert_close(Modulated("paper")(SCORES, NEAR, ELIGIBLE, EXISTS), expected)


@pytest.mark.parametrize("form", ["bounded", "reference"])
def test_the_other_forms_compare_with_the_neighbours_expected_exponentials(form):
    strength = SCORES.exp() * ELIGIBLE
    expected = strength / (strength + NEAR.left(strength) + NEAR.right(strength) + 1) * ELIGIBLE
    torch.testing.assert_close(
        Modulated(form)(SCORES, NEAR, ELIGIBLE, EXISTS), expected, atol=1e-6, rtol=1e-6
    )


def in_padded_batch(seed, kind):
    """Scores of up to 60 and existences of three sequences between START and END, each eligible position's flag, and
    which positions there are; some positions are gone or nearly so, and padding scores highest."""
    mask = torch.arange(30) < torch.tensor([[30], [17], [3]])
    place, count = torch.arange(30), mask.sum(1, keepdim=True)
    eligible = (place > 0) & (place < count - 2)
    exists = torch.where(eligible, numbers(mask.shape, seed, torch.rand), 1.0) * mask
    exists[:, 4::5] *= ~eligible[:, 4::5]
    exists[:, 3::5] *= torch.where(eligible[:, 3::5], 1e-7, 1.0)
    scores = torch.where(mask, 120 * numbers(mask.shape, seed + 1, torch.rand) - 60, 90.0)
    return scores.to(kind), exists.to(kind), eligible, mask


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(4))
def test_the_references_form_is_the_published_formula_with_its_guards(seed, kind):
    """Values to 1e-5 and gradients to 1e-4, row by row, against the formula in float64."""
    scores, exists, eligible, mask = in_padded_batch(seed, kind)
    weights = numbers(scores.shape, seed + 2)

    def outcome(decide, u, e, weights):
        u, e = u.clone().requires_grad_(), e.clone().requires_grad_()
        c = decide(u, e)
        of_u, of_e = torch.autograd.grad((c * weights).sum(), (u, e))
        return c.detach(), of_u, of_e

    def decide(u, e):
        return Modulated("reference")(u, Adhoc()(e, mask), eligible, e)

    got = outcome(decide, scores, exists, weights.to(kind))
    for row, n in enumerate(mask.sum(1).tolist()):
        may_compose = eligible[row, :n].double()
        exact = outcome(
            lambda u, e: composition(u, *neighbours(e), may_compose),  # noqa: B023
            *(values[row, :n].double() for values in (scores, exists, weights)),
        )
        torch.testing.assert_close(got[0][row, :n].double(), exact[0], atol=1e-5, rtol=0)
        for found, expected, counts in (
            (got[1], exact[1], 1),
            (got[2], exact[2], may_compose),
        ):  # others stay 1
            apart = (found[row, :n].double() - expected) * counts
            assert apart.norm() <= 1e-4 * (expected * counts).norm()


def test_the_bounded_exponential_goes_on_along_its_tangent_above_a_score_of_12():
    scores = torch.tensor([[0.0, 14.0, 11.0, 40.0, 0.0, 0.0]])
    strength = torch.tensor([[0.0, 3.0, math.exp(-1), 29.0, 0.0, 0.0]])  # divided by exp(12)
    expected = strength / (strength + NEAR.left(strength) + NEAR.right(strength) + math.exp(-12))
    torch.testing.assert_close(Modulated("bounded")(scores, NEAR, ELIGIBLE, EXISTS), expected)


@pytest.mark.parametrize("form", ["bounded", "reference"])
def test_gradients_are_those_of_the_values_on_both_sides_of_12(form):
    scores = torch.tensor([[0.0, 11.9, 12.1, 13.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    exists = torch.tensor([[0.95, 0.9, 0.3, 0.65, 0.85, 0.7]], dtype=torch.float64, requires_grad=True)

    def decide(u, e):
        return Modulated(form)(u, AdhocDense()(e, torch.ones_like(ELIGIBLE)), ELIGIBLE, e)

    assert torch.autograd.gradcheck(decide, (scores, exists))


@pytest.mark.parametrize("seed", range(3))
def test_extreme_scores_leave_bounded_gradients_in_float32_close_to_those_in_float64(seed):
    """exp(40), times a share of exactly 0, was a derivative that grew from step to step until it overflowed."""
    mask = torch.ones(1, 30, dtype=torch.bool)
    scores = numbers((4, 1, 30), seed, torch.rand) * 71 - 31  # as far apart as after long training
    exists = torch.ones(1, 30)
    exists[0, ::5] = 0
    found = {}
    for kind in (torch.float32, torch.float64):
        u, start = scores.to(kind).requires_grad_(), exists.to(kind).requires_grad_()
        e = start
        for step in u:
            e = e * (1 - Modulated("bounded")(step, AdhocDense()(e, mask), mask, e))
        found[kind] = torch.autograd.grad((e * numbers((1, 30), seed).to(kind)).sum(), (u, start))
    for got, exact in zip(*found.values(), strict=True):
        torch.testing.assert_close(got.double(), exact, atol=1e-4 * exact.abs().max().item(), rtol=1e-3)


@pytest.mark.parametrize(("schedule", "halfway"), [("linear", 1.25), ("exponential", 1.0)])
def test_a_tempered_decision_follows_its_schedule(schedule, halfway):
    decision = Tempered(start=2.0, end=0.5, schedule=schedule, modulation="none")
    for progress, temperature in ((0.0, 2.0), (0.5, halfway), (1.0, 0.5)):
        set_progress(decision, progress)
        expected = torch.sigmoid(SCORES / temperature) * ELIGIBLE
        torch.testing.assert_close(decision(SCORES, NEAR, ELIGIBLE, EXISTS), expected)


def test_the_point_of_the_schedule_is_saved_with_the_weights():
    decision, other = Tempered(), Tempered()
    set_progress(decision, 0.7)
    other.load_state_dict(decision.state_dict())
    assert other.temperature == decision.temperature


def test_gumbel_noise_is_there_in_training_only_and_is_unbiased_in_the_median():
    decision = GumbelSigmoid(modulation="none")
    many = SCORES.expand(20_000, -1)
    eligible = ELIGIBLE.expand(20_000, -1)
    noisy = decision.train()(many, NEAR, eligible, EXISTS.expand_as(many))
    assert noisy[:, 1].std() > 0.1
    torch.testing.assert_close(noisy.median(0).values[1:4], torch.sigmoid(SCORES[0, 1:4]), atol=0.02, rtol=0)
    calm = decision.eval()(SCORES, NEAR, ELIGIBLE, EXISTS)
    torch.testing.assert_close(calm, torch.sigmoid(SCORES) * ELIGIBLE)


def test_straight_through_is_hard_forward_and_soft_backward():
    hard_scores, soft_scores = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    hard = StraightThrough(modulation="none")(hard_scores, NEAR, ELIGIBLE, EXISTS)
    soft = Sigmoid()(soft_scores, NEAR, ELIGIBLE, EXISTS)
    assert hard.tolist() == [[0, 1, 0, 1, 0, 0]]
    hard.sum().backward()
    soft.sum().backward()
    torch.testing.assert_close(hard_scores.grad, soft_scores.grad)


def test_a_stretched_decision_is_exactly_zero_or_one_where_it_is_sure():
    decision = Stretched(stretch=0.1, modulation="none")
    sure = decision(torch.tensor([[0.0, 4, -4, 0, 0, 0]]), NEAR, ELIGIBLE, EXISTS)
    assert sure[0, :4].tolist() == pytest.approx([0, 1, 0, 0.5])
    assert sure[0, 1] == 1
    assert sure[0, 2] == 0
    expected = (1.2 * torch.sigmoid(SCORES) - 0.1).clamp(0, 1) * ELIGIBLE
    torch.testing.assert_close(decision(SCORES, NEAR, ELIGIBLE, EXISTS), expected)
