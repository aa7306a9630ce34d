"""Window scores by kernels and in torch."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import prune

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.kernels import without
from crvnn_parts.layers import ACTIVATIONS
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from twins import (
    assert_close,
    assert_twins,
    by_kernels,
    doubled,
    everything,
    lines,
    needs_kernels,
    numbers,
    unclean_memory,
)


@st.composite
def scorers(draw):
    """A scorer of any kind, and its twin in float64."""
    torch.manual_seed(draw(st.integers(0, 99)))
    width, window = draw(st.sampled_from([1, 5, 70])), draw(st.sampled_from([1, 3, 5]))
    scorer = WindowScorer(width, window, draw(st.sampled_from([0, 3])), draw(st.sampled_from(ACTIVATIONS)))
    with torch.no_grad():
        scorer.convolution.bias.normal_()
        scorer.score.bias.normal_()
    return scorer, doubled(scorer)


@needs_kernels
@pytest.mark.parametrize("used", ["all", "left alone", "scores alone"])
@settings(max_examples=40)
@given(lines(30), scorers(), st.integers(0, 7), st.booleans(), st.integers(0, 99))
def test_window_scores_agree_with_torch(used, line, pair, which, untouched, seed):
    """Saturated decisions pass no gradient on to the scores of some sequences, or of all."""
    exists, mask = line
    learning = torch.tensor([[bool(which >> b & 1)] for b in range(len(exists))])
    left_c = numbers(exists.shape, seed, torch.rand) * (0 if untouched else 1)

    def scoring(scorer, find):
        def run(v, e, g):
            near = find(e, mask)
            scores, left = scorer(v, near, g) * learning, near.left(v)
            return {"all": (scores, left), "left alone": left, "scores alone": scores}[used]

        return run

    fast, slow = scoring(pair[0], by_kernels), scoring(pair[1], AdhocDense())
    assert_twins(fast, slow, (numbers((*exists.shape, pair[0].width), seed + 1), exists, left_c), pair)


@needs_kernels
@settings(max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), scorers(), st.integers(0, 99))
def test_window_scores_where_everything_exists_agree_with_torch(lengths, pair, seed):
    """Where some sequences have no gradient too; what is computed for padding does not matter."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    learning = mask & (numbers((len(lengths), 1), seed + 2, torch.rand) > 0.3)

    def scoring(scorer):
        return lambda v, g: scorer(v, adjacent(mask, mask.to(v.dtype)), g) * learning

    assert isinstance(adjacent(mask, mask.float()), CompiledIntervals)
    unclean_memory()
    given_ = (numbers((*mask.shape, pair[0].width), seed + 1), numbers(mask.shape, seed, torch.rand))
    assert_twins(scoring(pair[0]), scoring(pair[1]), given_, pair)


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
@pytest.mark.parametrize("rows", [1, 14, 31, 300])
@pytest.mark.parametrize("width", [1, 13, 32, 40])
def test_a_scorer_of_any_size_agrees_with_torch(rows, width):
    torch.manual_seed(0)
    scorer = WindowScorer(width, 5, 3)
    twin = copy.deepcopy(scorer).double()
    exists = numbers((2, rows), 2, torch.rand)

    def run(module):
        def scores(values, left_c):
            near = Adhoc()(exists.to(values.dtype), torch.ones(2, rows, dtype=torch.bool))
            return module(values, near, left_c)

        return scores

    inputs = [numbers((2, rows, width), 0), numbers((2, rows), 1)]
    assert_twins(run(scorer), run(twin), inputs, (scorer, twin), plain=run(scorer))


@pytest.mark.parametrize("transition", [0, 2])
def test_a_pruned_scorer_uses_its_pruned_weights(transition):
    scorer, values, left_c = WindowScorer(4, 3, transition), numbers((1, 5, 4), 0), torch.rand(1, 5)
    near = AdhocDense()(torch.ones(1, 5), torch.ones(1, 5, dtype=torch.bool))
    plain = copy.deepcopy(scorer)
    prune.l1_unstructured(scorer.convolution, "weight", 0.5)
    plain.convolution.weight.data = scorer.convolution.weight.data
    for _ in range(2):
        got = scorer(values, near, left_c)
        got.sum().backward()
    assert_close(got, plain(values, near, left_c))


@needs_kernels
def test_parameters_need_not_be_contiguous():
    scorer, values, near = WindowScorer(4, 3, 2), numbers((1, 5, 4), 0), everything(5)
    scorer.score.bias = torch.nn.Parameter(torch.arange(2.0)[::2])
    scorer.convolution.bias = torch.nn.Parameter(torch.arange(8.0)[::2])
    found = scorer(values, near, torch.ones(1, 5))
    with without():
        torch.testing.assert_close(found, scorer(values, near, torch.ones(1, 5)))


@needs_kernels
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_nan_propagates(kind):
    """A diverged model must not give finite results."""
    scorer, near = WindowScorer(5, 3, 2, kind), everything(4)
    for unit in range(5):
        vectors = torch.randn(1, 4, 5)
        vectors[0, 2, unit] = float("nan")
        assert scorer(vectors, near, torch.zeros(1, 4)).isnan().tolist() == [[False, True, True, True]]
    with torch.no_grad():
        left_c = torch.tensor([[0, float("nan"), 0, 1]])
        scores = scorer(torch.randn(1, 4, 5), near, left_c)
        assert scores.isnan().tolist() == [[False, True, False, False]]
        scorer.convolution.weight[0, 0] = float("nan")
        assert scorer(torch.randn(1, 4, 5), near, left_c).isnan().all()
