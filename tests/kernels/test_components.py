"""The kernels of decisions, scores and parents against torch."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.kernels import without
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import modulated
from crvnn_parts.native.adapters import FORMS, KINDS
from crvnn_parts.native.intervals import CompiledIntervals
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.scorers import WindowScorer
from twins import (
    assert_close,
    assert_twins,
    by_kernels,
    decisions,
    doubled,
    everything,
    extreme_scores,
    graph,
    lines,
    needs_kernels,
    numbers,
    outcome,
    some,
    unclean_memory,
)


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.sampled_from([0.1, 1.0, 5.0]), st.integers(0, 99))
def test_modulated_decisions_agree_with_torch(form, drawn, spread, seed):
    exists, mask, eligible = drawn
    run, twin = _modulated(form, mask, eligible)
    assert_twins(run, twin, (numbers(exists.shape, seed) * spread, exists))


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.sampled_from([1.0, 5.0]), st.sampled_from([0.1, 0.5]), st.integers(0, 99))
def test_stretched_and_clipped_decisions_agree_with_torch(form, drawn, spread, stretch, seed):
    exists, mask, eligible = drawn
    run, twin = _modulated(form, mask, eligible, stretch)
    assert_twins(run, twin, (numbers(exists.shape, seed) * spread, exists))


def _modulated(form, mask, eligible, stretch=0.0):
    def deciding(find):
        return lambda u, e: modulated(u, find(e, mask), eligible, e * mask, form, stretch)

    return deciding(by_kernels), deciding(AdhocDense())


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.integers(0, 99))
def test_modulated_decisions_do_not_overflow_with_very_large_scores(form, drawn, seed):
    exists, mask, eligible = drawn
    scores = 80 * numbers(exists.shape, seed).clamp(-1, 1).round(decimals=2)
    run, twin = _modulated(form, mask, eligible)
    assert_twins(run, twin, (scores, exists), plain=twin)


@needs_kernels
@pytest.mark.parametrize("form", FORMS)
@some
@given(decisions(), st.integers(0, 99))
def test_modulated_decisions_with_extreme_scores_agree_with_torch(form, drawn, seed):
    exists, mask, eligible = drawn
    run, twin = _modulated(form, mask, eligible)
    assert_twins(run, twin, (extreme_scores(exists.shape, seed), exists))


@needs_kernels
@pytest.mark.parametrize("height", [20.0, 40.0, 60.0])
def test_one_very_high_score_does_not_change_decisions_far_away(height):
    """Left(exp(u)) spans many orders of magnitude, and each position compares it with its own exp(u)."""
    scores, exists = torch.full((1, 12), 3.0), torch.full((1, 12), 0.375)
    scores[0, 1] = height
    mask = torch.ones(1, 12, dtype=torch.bool)
    run, twin = _modulated("bounded", mask, mask)
    assert_twins(run, twin, (scores, exists))


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transition", [0, 3])
@settings(max_examples=15)
@given(lines(30), st.sampled_from([1, 5, 70]), st.sampled_from([1, 3, 5]), st.integers(0, 99), st.booleans())
def test_window_scores_agree_with_torch(kind, transition, line, width, window, seed, untouched):
    exists, mask = line
    torch.manual_seed(seed)
    scorer = WindowScorer(width, window, transition, kind)
    with torch.no_grad():
        scorer.convolution.bias.normal_()
        scorer.score.bias.normal_()
    left_c = numbers(exists.shape, seed, torch.rand) * (0 if untouched else 1)
    twin = doubled(scorer)
    assert_twins(
        lambda v, g: scorer(v, by_kernels(exists, mask), g),
        lambda v, g: twin(v, AdhocDense()(exists.double(), mask), g),
        (numbers((*exists.shape, width), seed + 1), left_c),
        (scorer, twin),
    )


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transition", [0, 3])
@some
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from([1, 5, 70]),
    st.sampled_from([3, 5]),
    st.integers(0, 99),
)
def test_window_scores_where_everything_exists_agree_with_torch(
    kind, transition, lengths, width, window, seed
):
    """Where some sequences have no gradient too; what is computed for padding does not matter."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    learning = mask & (numbers((len(lengths), 1), seed + 2, torch.rand) > 0.3)
    torch.manual_seed(seed)
    scorer = WindowScorer(width, window, transition, kind)
    with torch.no_grad():
        scorer.convolution.bias.normal_()
        scorer.score.bias.normal_()
    twin = doubled(scorer)

    def scoring(scorer):
        return lambda v, g: scorer(v, adjacent(mask, mask.to(v.dtype)), g) * learning

    assert isinstance(adjacent(mask, mask.float()), CompiledIntervals)
    unclean_memory()
    given_ = (numbers((*mask.shape, width), seed + 1), numbers(mask.shape, seed, torch.rand))
    assert_twins(scoring(scorer), scoring(twin), given_, (scorer, twin))


@needs_kernels
def test_what_stands_under_padding_changes_no_score():
    scorer, mask = WindowScorer(5), torch.tensor([[True] * 4, [True, True, False, False]])
    values, left_c = torch.randn(2, 4, 5), torch.rand(2, 4)
    found = []
    for padding in (0.0, 1e30):
        values[~mask] = padding
        scores = scorer(values.requires_grad_(), adjacent(mask, mask.float()), left_c)
        found.append([scores[mask], torch.autograd.grad(scores[mask].sum(), values)[0]])
        values = values.detach()
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


@needs_kernels
@pytest.mark.parametrize("transition", [0, 3])
@pytest.mark.parametrize("used", ["all", "left alone", "scores alone"])
@some
@given(lines(30), st.integers(0, 7), st.integers(0, 99))
def test_scores_of_sequences_without_a_gradient_agree_with_torch(transition, used, line, which, seed):
    """Saturated decisions pass no gradient on to the scores of some sequences, or of all."""
    exists, mask = line
    learning = torch.tensor([[bool(which >> b & 1)] for b in range(len(exists))])
    torch.manual_seed(seed)
    scorer = WindowScorer(5, 5, transition)
    twin = doubled(scorer)

    def scoring(scorer, find):
        def run(v, e, g):
            near = find(e, mask)
            scores, left = scorer(v, near, g) * learning, near.left(v)
            return {"all": (scores, left), "left alone": left, "scores alone": scores}[used]

        return run

    assert_twins(
        scoring(scorer, by_kernels),
        scoring(twin, AdhocDense()),
        (numbers((*exists.shape, 5), seed + 1), exists, numbers(exists.shape, seed, torch.rand)),
        (scorer, twin),
    )


@needs_kernels
def test_weights_have_gradients_of_zero_where_no_score_has_one():
    """Not none: an optimizer leaves out weights without a gradient, and with them their decay and momentum."""
    scorer, vectors = WindowScorer(5), torch.randn(1, 4, 5, requires_grad=True)
    near = everything(4)
    scores = scorer(vectors, near, torch.zeros(1, 4))
    (near.left(vectors).sum() + 0 * scores.sum()).backward()
    for name, weight in scorer.named_parameters():
        assert weight.grad is not None, name
        assert not weight.grad.any(), name


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 3), (17,), (100,), (769,), (2, 1000), (1537,)])
def test_parents_of_the_gated_cell_agree_with_torch(kind, shape):
    _assert_gated(GatedCell(6, hidden=10, activation=kind), shape)


@needs_kernels
@pytest.mark.parametrize("width", [1, 2, 3, 33, 130])
def test_parents_of_any_width_agree_with_torch(width):
    _assert_gated(GatedCell(width), (3, 10))


@needs_kernels
def test_parents_of_large_children_agree_with_torch():
    _assert_gated(GatedCell(8), (4, 40), by=30)


@needs_kernels
@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("shape", [(0,), (3, 10), (300,)])
def test_parents_with_dropout_agree_with_torch(rate, shape):
    """The dropout mask is the one that torch draws."""
    cell = GatedCell(6, dropout=rate)
    children = [numbers((*shape, 6), seed) for seed in (1, 2)]

    def run(left, right):
        torch.manual_seed(5)
        return cell(left, right)

    got = outcome(run, children, SimpleNamespace(parameters=lambda: _composing(cell)))
    with without():
        right = outcome(run, children, SimpleNamespace(parameters=lambda: _composing(cell)))
    assert "Gated" in str(graph(run(*[child.requires_grad_() for child in children]).grad_fn))
    for found, expected in zip([*got[0], *got[1]], [*right[0], *right[1]], strict=True):
        assert_close(found, expected)


def _assert_gated(cell, shape, by=1.0):
    with torch.no_grad():
        for layer in (cell.expand, cell.gates, cell.norm):
            layer.bias.normal_()
        cell.norm.weight.normal_()
    twin = doubled(cell)
    unclean_memory()
    children = [by * numbers((*shape, cell.width), seed) for seed in (1, 2)]
    modules = [SimpleNamespace(parameters=lambda m=m: _composing(m)) for m in (cell, twin)]
    assert_twins(cell, twin.layer_by_layer, children, modules, plain=cell.layer_by_layer)


def _composing(cell):
    return [p for layer in (cell.expand, cell.gates, cell.norm) for p in layer.parameters()]


@needs_kernels
def test_frozen_weights_get_no_gradient_and_the_others_theirs():
    cell = GatedCell(4)
    cell.expand.requires_grad_(False)
    left, right = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
    weights = torch.randn(3, 4)
    gradients = []
    for compose in (cell, cell.layer_by_layer):
        (compose(left, right) * weights).sum().backward()
        gradients.append([right.grad.clone(), cell.gates.weight.grad.clone()])
        right.grad = None
        cell.zero_grad()
        assert cell.expand.weight.grad is None
    for got, exact in zip(*gradients, strict=True):
        assert_close(got, exact)


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
def test_nan_propagates(kind):
    """A diverged model must not give finite results."""
    cell, scorer = GatedCell(5, activation=kind), WindowScorer(5, 3, 2, kind)
    for unit in range(5):
        left, right = torch.randn(4, 5), torch.randn(4, 5)
        left[2, unit] = float("nan")
        for parent in (cell(left, right), cell(right, left)):
            assert parent[2].isnan().all()
            assert parent[[0, 1, 3]].isfinite().all()
        scores = scorer(left.unsqueeze(0), everything(4), torch.zeros(1, 4))
        assert scores.isnan().tolist() == [[False, True, True, True]]
    with torch.no_grad():
        left_c = torch.tensor([[0, float("nan"), 0, 1]])
        scores = scorer(torch.randn(1, 4, 5), everything(4), left_c)
        assert scores.isnan().tolist() == [[False, True, False, False]]
        scorer.convolution.weight[0, 0] = float("nan")
        cell.gates.bias[1] = float("nan")
        assert scorer(torch.randn(1, 4, 5), everything(4), left_c).isnan().all()
        assert cell(right, right).isnan().all()
