"""Kernels of layers that have hooks, are pruned or have other parameters than they were built with."""

import copy

import pytest
import torch
from torch.nn.utils import prune

from crvnn_core.kernels import without
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.scorers import WindowScorer
from twins import assert_close, everything, needs_kernels, numbers


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
