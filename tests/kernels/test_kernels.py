"""Kernels against the operations' bodies in torch, in values and gradients; and when kernels are dispatched to."""

import copy
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.utils import prune
from torch.utils._python_dispatch import TorchDispatchMode

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations import (
    blend,
    blend_at,
    changed_rows,
    compact,
    join,
    rows_at,
    survey,
    transition,
)
from crvnn_core.kernels import serves, without
from crvnn_core.trees import tree_of
from crvnn_plugins.cells.gated import GatedCell
from crvnn_plugins.decisions.sigmoids import relax
from crvnn_plugins.native.adapters import FORMS, KINDS
from crvnn_plugins.native.intervals import CompiledIntervals
from crvnn_plugins.retrievers.dense import AdhocDense
from crvnn_plugins.retrievers.interval import Adhoc
from crvnn_plugins.scorers import WindowScorer
from twins import (
    LENGTHS,
    MODELS,
    PATTERNS,
    PLAIN,
    WIDTHS,
    assert_close,
    assert_twins,
    batch,
    by_kernels,
    doubled,
    encoder_of,
    everything,
    graph,
    lines,
    needs_kernels,
    numbers,
    outcome,
    some,
    unclean_memory,
)

# Soft neighbours


@needs_kernels
@some
@given(lines(), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_left_and_right_neighbours_agree_with_torch(line, width, seed):
    exists, mask = line
    shape = exists.shape if width is None else (*exists.shape, width)

    def both(find):
        def run(e, v):
            near = find(e, mask)
            return near.left(v), near.right(v), near.right(near.left(v))

        return run

    given_ = (exists, numbers(shape, seed))
    assert_twins(both(by_kernels), both(Adhoc(small=0)), given_)
    assert_twins(both(by_kernels), both(AdhocDense()), given_)


@needs_kernels
@pytest.mark.parametrize("asked", ["window", "left", "both"])
@some
@given(lines(), st.sampled_from(WIDTHS[1:]), st.integers(0, 3), st.integers(0, 99))
def test_windows_and_the_left_neighbours_computed_with_them_agree_with_torch(asked, line, width, reach, seed):
    exists, mask = line

    def stack(find):
        def run(e, v):
            near = find(e, mask)
            window, left = near.stacked(v, reach), near.left(v)
            return {"window": window, "left": left, "both": (window, left)}[asked]

        return run

    assert_twins(stack(by_kernels), stack(AdhocDense()), (exists, numbers((*exists.shape, width), seed)))


@needs_kernels
def test_values_need_not_be_contiguous():
    exists, values = numbers((2, 9), 1, torch.rand), numbers((9, 5, 2), 2)
    mask = torch.ones(2, 9, dtype=torch.bool)

    def run(find):
        return lambda e, v: (
            find(e, mask).stacked(v.transpose(0, 2).transpose(1, 2), 2),
            find(e, mask).left(v.permute(2, 0, 1)[..., 1:]),
            find(e, mask).right(v[:, 1].t()),
        )

    assert_twins(run(by_kernels), run(AdhocDense()), (exists, values))


@needs_kernels
@pytest.mark.parametrize("pattern", ["small", "tiny", "any"])
def test_rounding_errors_do_not_accumulate_over_long_sequences(pattern):
    exists, values = PATTERNS[pattern](numbers((2, 1500), 1, torch.rand)), numbers((2, 1500, 3), 2)
    mask = torch.arange(1500) < torch.tensor([[1500], [1200]])

    def run(find):
        return lambda e, v: (find(e, mask).stacked(v, 2), find(e, mask).right(v[..., 0]))

    assert_twins(run(by_kernels), run(AdhocDense()), (exists, values))


@needs_kernels
def test_large_values_far_away_do_not_cost_small_ones_their_precision():
    exists, values = numbers((1, 1500), 1, torch.rand), numbers((1, 1500, 2), 2)
    values[:, :700] += 1e4
    mask = torch.ones(1, 1500, dtype=torch.bool)
    got, right = by_kernels(exists, mask), AdhocDense()(exists.double(), mask)
    for side in ("left", "right"):
        found, exact = (getattr(near, side)(values.to(near_type)) for near, near_type in _typed(got, right))
        assert_close(found[:, 800:], exact[:, 800:], 1e-6)


def _typed(got, right):
    return (got, torch.float32), (right, torch.float64)


@needs_kernels
@some
@given(st.lists(st.integers(1, 20), min_size=1, max_size=3), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_where_all_positions_exist_neighbours_are_the_adjacent_positions(lengths, width, seed):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    values = numbers(mask.shape if width is None else (*mask.shape, width), seed)
    near = adjacent(mask, mask.float())
    assert isinstance(near, CompiledIntervals)
    with without():
        plain = adjacent(mask, mask.float())
    assert not isinstance(plain, CompiledIntervals)
    reaching = [near.left(values), near.right(values), *near.window(values, 2)]
    for got, right in zip(
        reaching, [plain.left(values), plain.right(values), *plain.window(values, 2)], strict=True
    ):
        torch.testing.assert_close(got[mask], right[mask], atol=0, rtol=0)


@needs_kernels
@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16, torch.bool])
@some
@given(lines(20), st.sampled_from([None, 3]), st.integers(0, 99))
def test_values_of_another_dtype_keep_it(kind, line, width, seed):
    """The precision is that of existence, float32."""
    exists, mask = line
    exists = (exists * mask).requires_grad_()
    values = numbers(exists.shape if width is None else (*exists.shape, width), seed).to(kind)
    got, right = by_kernels(exists, mask), AdhocDense()(exists.double(), mask)
    for side in ("left", "right"):
        found, exact = getattr(got, side)(values), getattr(right, side)(values.double())
        assert found.dtype == kind
        if kind == torch.bool:
            sure = exact.abs() > 1e-6
            assert found[sure].all()
        else:
            tolerance = 1e-2 if kind == torch.bfloat16 else 1e-6
            assert_close(found.detach(), exact.detach(), tolerance)
            slopes = [
                torch.autograd.grad(value.double().sum(), exists, retain_graph=True)[0]
                for value in (found, exact)
            ]
            assert_close(*slopes, 5 * tolerance)


@needs_kernels
def test_float64_values_are_never_rounded_to_float32_where_all_positions_exist():
    """The first step of a model in float64, where e = 1 everywhere."""
    values = torch.rand(1, 6, dtype=torch.float64)
    near = everything(6, torch.float64)
    assert torch.equal(near.left(values)[:, 1:], values[:, :-1])
    assert torch.equal(near.right(values)[:, :-1], values[:, 1:])


@needs_kernels
@pytest.mark.parametrize("shape", [(1, 8), (1, 3), (3, 4), (1, 4, 2, 3), (1, 2, 5)])
def test_values_of_another_shape_are_refused(shape):
    """An error, not a read out of bounds."""
    near = everything(4)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        near.left(torch.ones(shape))


@needs_kernels
@pytest.mark.parametrize("row", [-1, 4])
def test_row_indices_out_of_range_are_refused(row):
    nodes, left_c, where = torch.ones(1, 4, 2), torch.ones(1, 4), torch.tensor([1, row])
    with pytest.raises(IndexError, match="out of range for 4 rows"):
        rows_at(nodes, nodes, where)
    with pytest.raises(IndexError, match="out of range for 4 rows"):
        blend_at(nodes, nodes[0, :2], nodes[0, :2], left_c, where)


# Layers with hooks, pruning or other parameters


@needs_kernels
def test_parameters_need_not_be_contiguous():
    cell, scorer = GatedCell(4), WindowScorer(4, 3, 2)
    for layer in (cell.expand, cell.norm, scorer.score):
        layer.bias = torch.nn.Parameter(torch.arange(2.0 * len(layer.bias))[::2])
    cell.norm.weight = torch.nn.Parameter(torch.arange(8.0)[::2])
    values, near = numbers((1, 5, 4), 0), everything(5)
    for run in (lambda: cell(values, values), lambda: scorer(values, near, torch.ones(1, 5))):
        found = run()
        with without():
            torch.testing.assert_close(found, run())


@needs_kernels
def test_a_layer_with_a_forward_hook_is_called_itself():
    cell, seen = GatedCell(4), []
    cell.expand.register_forward_hook(lambda *call: seen.append(1))
    cell(torch.ones(2, 4), torch.ones(2, 4))
    assert seen == [1]


@needs_kernels
def test_a_layer_with_a_backward_hook_is_called_itself():
    cell, seen = GatedCell(4), []
    cell.expand.register_full_backward_hook(lambda *call: seen.append(1))
    cell(torch.ones(2, 4), torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert seen == [1]


@needs_kernels
@pytest.mark.parametrize("rows", [2, 600])
def test_a_pruned_cell_has_gradients(rows):
    cell = GatedCell(4)
    prune.l1_unstructured(cell.expand, "weight", 0.5)
    for _ in range(2):
        (cell(torch.ones(rows, 4), torch.ones(rows, 4)) * torch.arange(4)).sum().backward()
    assert cell.expand.weight_orig.grad.count_nonzero() > 0


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
@pytest.mark.parametrize("rows", [2, 600])
def test_a_cell_may_have_no_bias(rows):
    cell = GatedCell(4)
    cell.expand.bias = None
    assert cell(torch.ones(rows, 4), torch.ones(rows, 4)).shape == (rows, 4)


@needs_kernels
def test_changing_children_in_place_before_the_backward_pass_is_detected():
    left = torch.ones(2, 4)
    parent = GatedCell(4)(left, torch.ones(2, 4))
    left.zero_()
    with pytest.raises(RuntimeError, match="inplace"):
        parent.sum().backward()


# Decisions


@st.composite
def decisions(draw):
    """Existence, the mask, and which positions are eligible."""
    exists, mask = draw(lines(40))
    kind, seed = draw(st.sampled_from(["usual", "none", "some"])), draw(st.integers(0, 99))
    eligible = mask & (torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True) - 1)
    if kind != "usual":
        eligible &= numbers(mask.shape, seed, torch.rand) > (1 if kind == "none" else 0.5)
    return exists, mask, eligible


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
        return lambda u, e: relax(u, find(e, mask), eligible, form, stretch)

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
@pytest.mark.parametrize("height", [20.0, 40.0, 60.0])
def test_one_very_high_score_does_not_change_decisions_far_away(height):
    """Left(exp(u)) spans many orders of magnitude, and each position compares it with its own exp(u)."""
    scores, exists = torch.full((1, 12), 3.0), torch.full((1, 12), 0.375)
    scores[0, 1] = height
    mask = torch.ones(1, 12, dtype=torch.bool)
    run, twin = _modulated("reference", mask, mask)
    assert_twins(run, twin, (scores, exists))


# Scores and parents


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


# The state of a recursion


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


@st.composite
def nodes(draw):
    """The shape of nodes [B, n, s], and some row indices, each at most once, in any order."""
    batch, n, s = draw(st.integers(1, 3)), draw(st.integers(1, 30)), draw(st.sampled_from([1, 5, 70]))
    rows = draw(st.lists(st.integers(0, batch * n - 1), unique=True, max_size=batch * n))
    return (batch, n, s), torch.tensor(rows, dtype=torch.int64)


@needs_kernels
@pytest.mark.parametrize("everywhere", [True, False])
@some
@given(nodes(), st.integers(0, 99))
def test_the_blend_of_nodes_and_parents_agrees_with_torch(everywhere, drawn, seed):
    shape, rows = drawn
    where = None if everywhere else rows
    left_c = numbers(shape[:2], seed, torch.rand).mul(1.5).clamp(0.25, 1.25) - 0.25  # some exactly 0 or 1
    parents = numbers(shape if everywhere else (len(rows), shape[2]), seed + 1)

    def run(v, p, g):
        return blend(v, p, g) if where is None else blend_at(v, v.flatten(0, 1)[where], p, g, where)

    assert_twins(run, run, (numbers(shape, seed + 2), parents, left_c))


@needs_kernels
@some
@given(nodes(), st.integers(0, 99))
def test_selected_rows_are_those_of_torch(drawn, seed):
    shape, rows = drawn

    def run(one, two):
        return rows_at(one, two, rows)

    assert_twins(run, run, (numbers(shape, seed), numbers(shape, seed + 1)), tolerance=0)


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
        return compact(v, e, g, kept, *_flags(mask, seed), rows, size)

    given_ = (numbers((*exists.shape, width), seed), exists, numbers(exists.shape, seed + 1))
    assert_twins(lambda *inputs: run(*inputs)[:3], lambda *inputs: run(*inputs)[:3], given_, tolerance=0)
    got = run(*given_)
    with without():
        twin = run(*given_)
    assert [value.dtype for value in got] == [value.dtype for value in twin]
    assert all(map(torch.equal, got, twin))


def _flags(mask, seed=0):
    """Tokens, eligible positions and original positions, for compaction."""
    some = numbers(mask.shape, seed, torch.rand) > 0.3
    return mask & some, mask & ~some, torch.arange(mask.shape[1]).expand_as(mask)


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


@needs_kernels
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@some
@given(decisions(), st.integers(0, 99))
def test_the_rows_whose_left_c_exceeds_the_tolerance_are_those_of_torch(tolerance, drawn, seed):
    exists, _, _ = drawn
    left_c = numbers(exists.shape, seed, torch.rand).sub(0.3).clamp(0)
    got = changed_rows(left_c, exists, tolerance)
    with without():
        assert torch.equal(got, changed_rows(left_c, exists, tolerance))


@needs_kernels
@some
@given(lines(), st.sampled_from([None, "some", "all"]), st.integers(0, 99))
def test_binary_joins_are_those_of_torch(line, closing, seed):
    _, present = line
    tokens = present & (torch.arange(present.shape[1]) > 0)
    eligible = tokens & (torch.arange(present.shape[1]) < present.sum(1, keepdim=True) - 2)
    compose = (numbers(present.shape, seed, torch.rand) * 9).floor() / 8  # often exactly a half
    exists = 0.5 ** (numbers(present.shape, seed + 1, torch.rand) * 3).floor()
    over = {"some": torch.arange(len(present)) % 2 == 0, "all": torch.ones(len(present), dtype=torch.bool)}
    given_ = (compose, exists, eligible, tokens, present, over.get(closing))
    got = join(*given_)
    with without():
        twin = join(*given_)
    assert [value.dtype for value in got] == [value.dtype for value in twin]
    assert all(map(torch.equal, got, twin))


# Whole models


def encoded(encoder, inputs, mask):
    """The encoding with its trace, and the gradients of all parameters and of the inputs."""
    encoder.zero_grad()
    inputs = inputs.clone().requires_grad_()
    found = encoder(inputs, mask, trace=True)
    weights = torch.linspace(-1, 1, found.vector.numel()).view_as(found.vector)
    loss = (found.vector * weights).sum() + 10 * found.penalty.sum()
    unclean_memory()
    loss.backward()
    gradients = {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}
    return found, {name: grad.clone() for name, grad in gradients.items()} | {"inputs": inputs.grad}


def assert_same_encoding(one, two, tolerance=2e-5):
    assert one.steps.tolist() == two.steps.tolist()
    assert_close(one.vector, two.vector, tolerance, "vector")
    assert_close(one.penalty, two.penalty, tolerance, "penalty")
    assert_close(one.trace.compose, two.trace.compose, tolerance, "trace of c")
    assert_close(one.trace.exists, two.trace.exists, tolerance, "trace of e")


def assert_same_gradients(one, two, tolerance=5e-5):
    assert one.keys() == two.keys()
    for name, gradient in one.items():
        assert_close(gradient, two[name], tolerance, f"gradient of {name}")


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_same_with_kernels_and_without(catalog, name):
    encoder = encoder_of(catalog, name)
    got = encoded(encoder, *batch())
    with without():
        twin = encoded(encoder, *batch())
    assert_same_encoding(got[0], twin[0])
    assert_same_gradients(got[1], twin[1])
    with torch.no_grad():
        quick = encoder(*batch(), trace=True)
        with without():
            plain = encoder(*batch(), trace=True)
    assert_same_encoding(quick, plain)


@needs_kernels
def test_some_of_the_test_sequences_halt_early(catalog):
    steps = {name: encoder_of(catalog, name)(*batch()).steps.tolist() for name in MODELS}
    assert steps["never halting"] == [n - 1 for n in LENGTHS]
    assert any(taken[0] < 10 for taken in steps.values()), steps


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_a_sequence_gives_the_same_alone_and_in_a_batch(catalog, name):
    encoder = encoder_of(catalog, name)
    inputs, mask = batch()
    together = encoder(inputs, mask)
    for row, n in enumerate(LENGTHS):
        alone, gradients = encoded(encoder, inputs[row : row + 1, :n], mask[row : row + 1, :n])
        with without():
            twin, twin_gradients = encoded(encoder, inputs[row : row + 1, :n], mask[row : row + 1, :n])
        assert_same_encoding(alone, twin)
        assert_same_gradients(gradients, twin_gradients)
        assert_close(alone.vector[0], together.vector[row], 1e-3 if name == "leaving out" else 2e-5)
        assert alone.steps[0] == together.steps[row]


@needs_kernels
@pytest.mark.parametrize("name", MODELS)
def test_activation_checkpointing_gives_the_same_gradients(catalog, name):
    encoder = encoder_of(catalog, name)
    kept = encoded(encoder, *batch())
    encoder.checkpoint = True
    again = encoded(encoder, *batch())
    assert_same_encoding(kept[0], again[0], 1e-6)
    assert_same_gradients(kept[1], again[1], 1e-6)


@needs_kernels
@pytest.mark.parametrize("name", ["paper", "reference", "simplified-2023", "stretched", "lstm"])
def test_hard_inference_finds_the_same_trees(catalog, name):
    encoder = encoder_of(catalog, name)
    got = encoder(*batch(), trace=True, hard=True)
    with without():
        twin = encoder(*batch(), trace=True, hard=True)
    assert_same_encoding(got, twin)
    for row, n in enumerate(LENGTHS):
        names = [f"x{i}" for i in range(n)]
        assert str(tree_of(got.trace, row, names)) == str(tree_of(twin.trace, row, names))


@needs_kernels
def test_a_step_without_any_composition_has_the_gradients_of_torch(catalog):
    """With c = 0 everywhere the cell is called with no rows."""
    encoder = encoder_of(catalog, "stretched", sharpness=0.1, bias=-8.0)
    got = encoded(encoder, *batch((4, 4)))
    with without():
        twin = encoded(encoder, *batch((4, 4)))
    assert_same_encoding(got[0], twin[0])
    assert_same_gradients(
        {name: grad for name, grad in got[1].items() if name in twin[1]},
        {name: grad for name, grad in twin[1].items() if name in got[1]},
    )


@needs_kernels
@pytest.mark.parametrize("name", ["paper", "stretched"])
def test_a_model_in_float64_computes_in_float64(catalog, name):
    encoder = encoder_of(catalog, name).double()
    inputs, mask = batch()
    got = encoder(inputs.double(), mask)
    with without():
        twin = encoder(inputs.double(), mask)
    assert_close(got.vector, twin.vector, 1e-12)


@needs_kernels
def test_the_graph_of_a_model_is_made_of_kernels(catalog):
    """Otherwise the tests above would compare torch with torch."""
    encoder = encoder_of(catalog, "paper")
    used = graph(encoder(*batch()).vector.grad_fn)
    for kernel in ("IntervalScores", "Modulate", "Transition", "Gated", "Blend", "Compact", "SelectRows"):
        assert any(f"crvnn::{kernel}" in name or f"crvnn{len(kernel)}{kernel}" in name for name in used), (
            f"{kernel} is not in {used}"
        )
    with without():
        assert not any("crvnn" in name for name in graph(encoder(*batch()).vector.grad_fn))


# Threads


@pytest.fixture
def in_threads():
    """Call a function with a number of threads."""
    before = torch.get_num_threads()

    def call(count, work):
        torch.set_num_threads(count)
        return work()

    yield call
    torch.set_num_threads(before)


@needs_kernels
def test_results_do_not_depend_on_the_number_of_threads(in_threads):
    exists, values = numbers((6, 300), 1, torch.rand), numbers((6, 300, 130), 2)
    mask = torch.arange(300) < torch.tensor([[300], [300], [299], [200], [7], [1]])
    scores, order = 3 * numbers((6, 300), 3), numbers((6, 300), 4).argsort(1)[:, :250]
    flat = order + 300 * torch.arange(6).unsqueeze(1)

    def run(e, v, u):
        near = by_kernels(e, mask)
        decided = [relax(u, near, mask, form) for form in FORMS]
        moved = transition(decided[0], near, e, mask, mask)
        picked = rows_at(near.left(v), v, flat.flatten())
        blends = [
            blend(v, v.tanh(), moved[1]),
            blend_at(v, picked[1], picked[0], moved[1], flat.flatten()),
        ]
        kept = compact(v, e, u, scores > 0, *_flags(mask), [0, 2, 3, 5], 200)[:3]
        return [near.stacked(v, 2), near.right(u), *decided, *moved, *picked, *blends, *kept]

    one, two = (in_threads(count, lambda: outcome(run, (exists * mask, values, scores))) for count in (1, 2))
    for got, again in zip([*one[0], *one[1]], [*two[0], *two[1]], strict=True):
        assert torch.equal(got, again)


@needs_kernels
@pytest.mark.parametrize("kind", KINDS)
def test_torchs_matrix_products_depend_on_the_number_of_threads_by_rounding_alone(in_threads, kind):
    cell, scorer = GatedCell(64, activation=kind), WindowScorer(64, 3, 8, kind)
    mask = torch.ones(4, 300, dtype=torch.bool)
    left_c, children = numbers((4, 300), 1, torch.rand), [numbers((4, 300, 64), seed) for seed in (2, 3)]
    for module, run in (
        (cell, cell.__call__),
        (scorer, lambda v, g: scorer(v, adjacent(mask, mask.float()), g)),
    ):
        inputs = children if module is cell else [children[0], left_c]
        one, two = (in_threads(count, lambda: outcome(run, inputs, module)) for count in (1, 2))  # noqa: B023
        for got, again in zip([*one[0], *one[1]], [*two[0], *two[1]], strict=True):
            assert_close(got, again, 1e-6)


# When kernels are not dispatched to


class Interceptor(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Subclass(Tensor):
    """A third party's tensor subclass."""


@needs_kernels
def test_plain_float32_tensors_and_parameters_go_to_kernels():
    assert serves(PLAIN, torch.nn.Parameter(PLAIN), PLAIN.t(), PLAIN.bool(), PLAIN.long(), 3, None)


@needs_kernels
@pytest.mark.parametrize(
    "other",
    [
        PLAIN.double(),
        PLAIN.bfloat16(),
        PLAIN.half(),
        PLAIN.int(),
        PLAIN.to("meta"),
        PLAIN.as_subclass(Subclass),
        FakeTensorMode().from_tensor(PLAIN),
    ],
    ids=lambda other: f"{type(other).__name__} {other.dtype} {other.device}",
)
def test_other_tensors_go_to_torch(other):
    assert not serves(other)
    assert not serves(PLAIN, other)


@needs_kernels
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func.jvp compiles something with torch.jit
def test_whatever_intercepts_or_transforms_torch_sees_the_body(monkeypatch):
    with without():
        assert not serves(PLAIN)
        with without():
            pass
        assert not serves(PLAIN)
    with torch.autocast("cpu", torch.bfloat16):
        assert not serves(PLAIN)
    with Interceptor():
        assert not serves(PLAIN)
    with FakeTensorMode():
        assert not serves(PLAIN)
    seen = []

    def record(x):
        seen.append(serves(x) or serves(PLAIN))
        return x.sum()

    torch.func.grad(record)(PLAIN)
    torch.func.vmap(record)(PLAIN)
    torch.func.jvp(record, (PLAIN,), (PLAIN,))
    torch.func.functional_call(torch.nn.Identity(), {}, (PLAIN,))
    assert seen == [False, False, False]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not serves(PLAIN)
    monkeypatch.undo()
    assert serves(PLAIN)


@needs_kernels
def test_without_ends_with_its_block_even_after_an_exception():
    with pytest.raises(ZeroDivisionError), without():
        1 / 0  # noqa: B018
    assert serves(PLAIN)


def test_an_environment_variable_switches_kernels_off():
    code = "import torch; from crvnn_core.kernels import serves; assert not serves(torch.zeros(1))"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"CRVNN_NATIVE": "0"})


@needs_kernels
def test_under_autocast_or_a_dispatch_mode_a_model_runs_without_kernels(catalog):
    encoder, (inputs, mask) = encoder_of(catalog, "paper"), batch()
    results = []
    for context in (Interceptor(), without()):
        with context, torch.no_grad():
            results.append(encoder(inputs, mask).vector)
    assert torch.equal(*results)
    results = []
    for context in (torch.enable_grad(), without()):
        with context, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            results.append(encoder(inputs, mask).vector)
    assert torch.equal(*results)


@needs_kernels
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the same for make_dual
def test_forward_mode_derivatives_are_computed_or_refused_but_never_dropped():
    cell, near = GatedCell(3).requires_grad_(False), everything(4)
    with forward_ad.dual_level():
        values = forward_ad.make_dual(torch.randn(1, 4, 3), torch.ones(1, 4, 3))
        for run in (near.left, lambda v: near.stacked(v, 1), lambda v: cell(v, v)):
            try:
                found = run(values)
            except (RuntimeError, NotImplementedError):
                continue
            assert forward_ad.unpack_dual(found).tangent is not None


# Second derivatives


def _kernels_in_use():
    exists = (0.1 + 0.8 * numbers((1, 4), 1, torch.rand)).requires_grad_()
    values = numbers((1, 4, 3), 2).requires_grad_()
    mask = torch.ones(1, 4, dtype=torch.bool)
    near, where = Adhoc()(exists, mask), torch.tensor([1, 3])
    cell, scorer = GatedCell(3), WindowScorer(3, 3, 2)
    return (
        {
            "neighbour": lambda: near.left(values),
            "window": lambda: near.stacked(values, 1),
            "modulated": lambda: relax(values[..., 0], near, mask, "paper"),
            "transition": lambda: torch.stack(transition(exists * 0.5, near, exists, mask, mask)),
            "window scores": lambda: scorer(values, near, exists),
            "gated": lambda: cell(values, values),
            "blend": lambda: blend(values, values * 2, exists),
            "rows": lambda: rows_at(values, values, where)[0],
            "compact": lambda: compact(values, exists, exists, exists > 0.5, *_flags(mask), [0], 2)[0],
        },
        values,
        exists,
    )


@needs_kernels
@pytest.mark.parametrize(
    "name",
    ["neighbour", "window", "modulated", "transition", "window scores", "gated", "blend", "rows", "compact"],
)
def test_second_derivatives_are_refused_and_the_error_says_what_to_do(name):
    uses, values, exists = _kernels_in_use()
    asked = exists if name == "transition" else values
    (uses[name]() ** 2).sum().backward(retain_graph=True)  # first derivatives exist
    assert asked.grad.isfinite().all()
    with pytest.raises(RuntimeError, match=r"no second derivatives.*CRVNN_NATIVE=0"):
        torch.autograd.grad((uses[name]() ** 2).sum(), asked, create_graph=True)
