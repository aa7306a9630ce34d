"""Parents of the gated cell by kernels and in torch."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils import prune

from crvnn_core.kernels import without
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.layers import ACTIVATIONS
from twins import assert_close, assert_twins, doubled, graph, needs_kernels, numbers, outcome, unclean_memory

pytestmark = needs_kernels


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(0,), (2, 3), (2, 1000)])
def test_parents_of_the_gated_cell_agree_with_torch(kind, shape):
    _assert_gated(GatedCell(6, hidden=10, activation=kind), shape)


@pytest.mark.parametrize("rows", [1, 13, 14, 15, 113, 257, 1100])
@pytest.mark.parametrize(("width", "hidden"), [(3, 1), (8, 31), (16, 64), (33, 12), (130, 520)])
def test_parents_of_any_size_agree_with_torch(rows, width, hidden):
    """At sizes that fill no whole tile of a GEMM: 14 rows, 32 columns, 256 rows of a tall matrix.

    (LayerNorm of width 1 or 2 has next to no gradient: what is computed is rounding times 1 / sqrt(eps).)
    """
    _assert_gated(GatedCell(width, hidden), (rows,))


@pytest.mark.parametrize("width", [1, 2])
def test_parents_of_one_or_two_numbers_agree_with_torch(width):
    cell = GatedCell(width, hidden=1)
    children = [numbers((113, width), seed) for seed in (1, 2)]
    got = cell(*children)
    with without():
        assert_close(got, cell(*children))


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("shape", [(0,), (3, 10), (300,)])
def test_parents_with_dropout_agree_with_torch(rate, shape):
    """The dropout mask is the one that torch draws."""
    cell = GatedCell(6, dropout=rate)
    children = [numbers((*shape, 6), seed) for seed in (1, 2)]

    def run(left, right):
        torch.manual_seed(5)
        return cell(left, right)

    composing = SimpleNamespace(parameters=lambda: _composing(cell))
    got = outcome(run, children, composing)
    with without():
        right = outcome(run, children, composing)
    assert "Gated" in str(graph(run(*[child.requires_grad_() for child in children]).grad_fn))
    for found, expected in zip([*got[0], *got[1]], [*right[0], *right[1]], strict=True):
        assert_close(found, expected)


def _assert_gated(cell, shape):
    with torch.no_grad():
        for layer in (cell.expand, cell.gates, cell.norm):
            layer.bias.normal_()
        cell.norm.weight.normal_()
    twin = doubled(cell)
    unclean_memory()
    children = [numbers((*shape, cell.width), seed) for seed in (1, 2)]
    modules = [SimpleNamespace(parameters=lambda m=m: _composing(m)) for m in (cell, twin)]
    assert_twins(cell, twin.layer_by_layer, children, modules, plain=cell.layer_by_layer)


def _composing(cell):
    return [p for layer in (cell.expand, cell.gates, cell.norm) for p in layer.parameters()]


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


@pytest.mark.parametrize("hook", ["register_forward_hook", "register_full_backward_hook"])
def test_a_layer_with_a_hook_is_called_itself(hook):
    cell, seen = GatedCell(4), []
    getattr(cell.expand, hook)(lambda *call: seen.append(1))
    cell(torch.ones(2, 4), torch.ones(2, 4, requires_grad=True)).sum().backward()
    assert seen == [1]


@pytest.mark.parametrize("rows", [2, 600])
def test_a_cell_may_be_pruned_or_have_no_bias(rows):
    cell = GatedCell(4)
    prune.l1_unstructured(cell.expand, "weight", 0.5)
    for _ in range(2):
        (cell(torch.ones(rows, 4), torch.ones(rows, 4)) * torch.arange(4)).sum().backward()
    assert cell.expand.weight_orig.grad.count_nonzero() > 0
    cell.expand.bias = None
    assert cell(torch.ones(rows, 4), torch.ones(rows, 4)).shape == (rows, 4)


def test_changing_children_in_place_before_the_backward_pass_is_detected():
    left = torch.ones(2, 4)
    parent = GatedCell(4)(left, torch.ones(2, 4))
    left.zero_()
    with pytest.raises(RuntimeError, match="inplace"):
        parent.sum().backward()


def test_parameters_need_not_be_contiguous():
    cell = GatedCell(4)
    for layer in (cell.expand, cell.norm):
        layer.bias = torch.nn.Parameter(torch.arange(2.0 * len(layer.bias))[::2])
    cell.norm.weight = torch.nn.Parameter(torch.arange(8.0)[::2])
    values = numbers((5, 4), 0)
    found = cell(values, values)
    with without():
        torch.testing.assert_close(found, cell(values, values))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_nan_propagates(kind):
    """A diverged model must not give finite results."""
    cell = GatedCell(5, activation=kind)
    for unit in range(5):
        left, right = torch.randn(4, 5), torch.randn(4, 5)
        left[2, unit] = float("nan")
        for parent in (cell(left, right), cell(right, left)):
            assert parent[2].isnan().all()
            assert parent[[0, 1, 3]].isfinite().all()
    with torch.no_grad():
        cell.gates.bias[1] = float("nan")
        assert cell(right, right).isnan().all()
