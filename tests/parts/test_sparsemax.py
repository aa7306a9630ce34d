"""Sparsemax over the row, against a slow twin."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_core.testing import strategies
from crvnn_core.testing.oracles import matrices
from crvnn_parts.decisions.sparsemax import Sparsemax, sparsemax


def clipped(score, tau):
    return min(1.0, max(0.0, score - tau))


def bisected(scores, weights, share):
    """One row: tau by bisection, and the total; (None, total) where all c are 1."""
    total = max(1.0, share * sum(weights))
    if sum(weights) <= total:
        return None, total
    low, high = min(scores) - 1, max(scores)
    for _ in range(200):
        middle = (low + high) / 2
        reached = sum(w * clipped(u, middle) for u, w in zip(scores, weights, strict=True))
        low, high = (middle, high) if reached > total else (low, middle)
    return (low + high) / 2, total


def implicit_gradients(scores, weights, share, upstream):
    """Gradients of sum(upstream * c) for scores and weights, from d(sum of w c) = d(total)."""
    tau, total = bisected(scores, weights, share)
    active = [0 < u - tau < 1 for u in scores] if tau is not None else [False] * len(scores)
    mass = sum(w for w, free in zip(weights, active, strict=True) if free)
    of_tau = -sum(g for g, free in zip(upstream, active, strict=True) if free)
    if not mass:
        return [0.0] * len(scores), [0.0] * len(scores)
    of_scores = [
        g + of_tau * w / mass if free else 0.0 for g, w, free in zip(upstream, weights, active, strict=True)
    ]
    growth = share if total > 1 else 0.0
    return of_scores, [of_tau * (clipped(u, tau) - growth) / mass for u in scores]


def kink_near(scores, weights, share):
    """Whether a small change makes another position saturate, or the total another branch."""
    tau, _ = bisected(scores, weights, share)
    close = [] if tau is None else [min(abs(u - tau), abs(u - tau - 1)) for u in scores]
    return min([*close, abs(share * sum(weights) - 1), abs(sum(weights) - 1)]) < 1e-3


rows = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-4, 4), min_size=n, max_size=n),
        st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 1)), min_size=n, max_size=n),
    )
)
shares = st.sampled_from([0.1, 0.5, 0.9, 1.0])


def tensors(*lists):
    return [torch.tensor([values], dtype=torch.float64, requires_grad=True) for values in lists]


@given(rows, shares)
def test_it_agrees_with_bisection(row, share):
    scores, weights = row
    tau, total = bisected(scores, weights, share)
    got = sparsemax(*tensors(scores, weights), share)[0].tolist()
    there = [(c, u) for c, u, w in zip(got, scores, weights, strict=True) if w]  # others' c is never used
    if tau is None:
        assert all(c == 1 for c, _ in there)
    else:
        assert sum(w * c for w, c in zip(weights, got, strict=True)) == pytest.approx(total, abs=1e-6)
        assert [c for c, _ in there] == pytest.approx([clipped(u, tau) for _, u in there], abs=1e-6)


@settings(max_examples=30)
@given(rows, shares, st.integers(0, 100))
def test_its_gradients_agree_with_implicit_differentiation(row, share, seed):
    scores, weights = row
    assume(not kink_near(scores, weights, share))
    u, w = tensors(scores, weights)
    upstream = torch.randn(len(scores), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    upstream = upstream * (w[0] > 0)
    (sparsemax(u, w, share)[0] * upstream).sum().backward()
    of_scores, of_weights = implicit_gradients(scores, weights, share, upstream.tolist())
    assert u.grad[0].tolist() == pytest.approx(of_scores, abs=1e-8)
    assert w.grad[0].tolist() == pytest.approx(of_weights, rel=1e-6, abs=1e-8)


def test_a_total_of_one_is_the_sparsemax_of_the_literature():
    chosen = sparsemax(
        torch.tensor([[3.0, 2.5, 0.0], [3.0, 1.0, 0.0], [0.2, 0.2, 0.2]]), torch.ones(3, 3), 0.1
    )
    torch.testing.assert_close(chosen, torch.tensor([[0.75, 0.25, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]))


@given(rows, shares, st.integers(0, 12), st.floats(-50, 50))
def test_a_position_of_weight_0_changes_nothing(row, share, place, score):
    scores, weights = row
    place = min(place, len(scores))
    longer = [*scores[:place], score, *scores[place:]], [*weights[:place], 0.0, *weights[place:]]
    plain, more = (
        sparsemax(*tensors(*row), share)[0].tolist(),
        sparsemax(*tensors(*longer), share)[0].tolist(),
    )
    assert more[:place] + more[place + 1 :] == pytest.approx(plain, abs=1e-6)


@given(strategies.existences(max_length=12), st.integers(0, 100), st.sampled_from([0.3, 1.0, 30.0]))
def test_what_is_saturated_has_no_gradient(exists, seed, spread):
    scores = spread * torch.randn(exists.shape, generator=torch.Generator().manual_seed(seed))
    scores, exists = scores.requires_grad_(), exists.requires_grad_()
    chosen = sparsemax(scores, exists, 0.5)
    saturated = (chosen == 0) | (chosen == 1)
    gradients = torch.autograd.grad((chosen * saturated).sum(), (scores, exists))
    assert not any(gradient.any() for gradient in gradients)


def test_ties_are_shared_and_even_totals_give_exact_zeros_and_ones():
    eligible = torch.ones(1, 4, dtype=torch.bool)
    decide = Sparsemax(modulation="none")
    near = matrices(torch.ones(1, 4))
    assert decide(torch.zeros(1, 4), near, eligible, torch.ones(1, 4)).tolist() == [[0.5] * 4]
    assert decide(torch.tensor([[5.1, -3.3, 0.7, 2.2]]), near, eligible, torch.ones(1, 4)).tolist() == [
        [1, 0, 0, 1]
    ]


def test_modulation_keeps_neighbours_from_both_being_composed():
    scores, eligible = torch.tensor([[4.0, 4.1, 0.0, 2.0, 0.0]]), torch.ones(1, 5, dtype=torch.bool)
    exists = torch.ones(1, 5)
    alone, modulated = (
        Sparsemax(0.4, modulation=form)(scores, matrices(exists), eligible, exists)
        for form in ("none", "paper")
    )
    assert alone[0, 0] + alone[0, 1] == 2
    assert modulated[0, 0] + modulated[0, 1] < 1.2
    assert modulated[0, 3] > 0.8


def test_it_composes_about_half_of_what_is_left_in_a_step(catalog):
    spec = read_spec(catalog, parts={"decision": "sparsemax"}, sets=["model.width=8"])
    inputs, mask = torch.randn(1, 65, 8), torch.ones(1, 65, dtype=torch.bool)
    encoding = assemble(spec, catalog).model.encoder(inputs, mask, trace=True)
    left = encoding.trace.exists[:, 0].sum(1) - 1  # beside the last token
    torch.testing.assert_close(left[1:4], torch.tensor([32.0, 16.0, 8.0]), atol=1e-3, rtol=0)
    assert encoding.steps.tolist() == [7]
