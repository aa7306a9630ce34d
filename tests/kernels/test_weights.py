"""Weights shared by all steps of a recursion: deferred gradients, and one transposed copy per forward pass."""

import gc
import weakref

import pytest
import torch

from crvnn_core.kernels import fixed_weights, without
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from twins import assert_close, batch, encoder_of, everything, graph, needs_kernels, numbers

pytestmark = needs_kernels


@fixed_weights()
def _loss(module):
    """A loss of several calls of a module in one forward pass, with different numbers of rows."""
    total = 0.0
    for number, rows in enumerate((3, 600, 1, 40, 1100, 7)):
        values = numbers((1, rows, module.width), number)
        if isinstance(module, GatedCell):
            found = module(values, values.flip(1))
        else:
            near = Adhoc()(torch.full((1, rows), 0.5), torch.ones(1, rows, dtype=torch.bool))
            found = module(values, near, values[..., 0].sigmoid()) * (number + 1)
        total = total + (found * found.detach().cos()).sum()
    return total


SHARED = {
    "gated": lambda: GatedCell(6),
    "window": lambda: WindowScorer(6, 5, 3),
    "plain window": lambda: WindowScorer(6, 3, 0),
}


def _trained_parts(module):
    return [p for name, p in module.named_parameters() if not name.startswith("leaf")]


@pytest.fixture(params=SHARED)
def shared(request):
    """A module, and its gradients by torch."""
    module = SHARED[request.param]()
    with without():
        return module, torch.autograd.grad(_loss(module), _trained_parts(module))


def _called(module, inputs):
    if isinstance(module, GatedCell):
        return module(inputs, inputs).sum()
    return module(inputs, everything(inputs.shape[1]), inputs[..., 0]).sum()


def _assert_all_close(got, right):
    for one, other in zip(got, right, strict=True):
        assert_close(one, other, 2e-5)  # both are rounded


def test_all_steps_share_one_node_that_returns_the_weight_gradients(shared):
    module, right = shared
    loss = _loss(module)
    assert sum("ShareWeights" in name for name in graph(loss.grad_fn)) == 1
    loss.backward()
    _assert_all_close([p.grad for p in _trained_parts(module)], right)


def test_the_gradient_of_one_weight_can_be_requested_alone(shared):
    module, right = shared
    loss = _loss(module)
    for number, weight in enumerate(_trained_parts(module)):
        (got,) = torch.autograd.grad(loss, weight, retain_graph=True)
        assert_close(got, right[number])


def test_requesting_gradients_of_inputs_alone_leaves_no_deferred_rows(shared):
    module, right = shared
    inputs = numbers((1, 9, module.width), 1).requires_grad_()
    loss = _loss(module) + _called(module, inputs) * 0
    torch.autograd.grad(loss, inputs, retain_graph=True)
    _assert_all_close(torch.autograd.grad(loss, _trained_parts(module)), right)


def test_a_backward_pass_that_raises_leaves_no_deferred_rows(shared):
    module, right = shared
    loss = _loss(module)
    inputs = numbers((1, 5, module.width), 3).requires_grad_()

    def fail(gradient):
        raise ValueError("stop")

    first = inputs * 1
    first.register_hook(fail)
    with pytest.raises(ValueError, match="stop"):
        (loss + _called(module, first)).backward(retain_graph=True)
    module.zero_grad()
    _assert_all_close(torch.autograd.grad(loss, _trained_parts(module)), right)


def test_changing_features_in_place_before_the_backward_pass_is_detected():
    scorer = WindowScorer(6, 5, 3)
    loss = _loss(scorer)
    with torch.no_grad():
        scorer.composed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_weights_are_freed_with_their_graph_and_module():
    cell = GatedCell(6)
    loss = _loss(cell)
    loss.backward()
    weight = weakref.ref(cell.expand.weight)
    del loss, cell
    gc.collect()
    assert weight() is None


def test_a_scorer_that_the_loss_does_not_depend_on_has_no_gradient():
    scorer, values = WindowScorer(6, 5, 3), numbers((1, 9, 6), 0).requires_grad_()
    near = Adhoc()(torch.full((1, 9), 0.5), torch.ones(1, 9, dtype=torch.bool))
    scorer(values, near, torch.ones(1, 9))
    (near.left(values) * numbers((1, 9, 6), 1)).sum().backward()  # computed together with the scores
    assert scorer.convolution.weight.grad is None
    with without():
        right = values.detach().requires_grad_()
        near = AdhocDense()(torch.full((1, 9), 0.5), torch.ones(1, 9, dtype=torch.bool))
        (near.left(right) * numbers((1, 9, 6), 1)).sum().backward()
    assert_close(values.grad, right.grad)


def test_batched_gradients_are_refused_and_the_error_says_what_to_do():
    cell, values = GatedCell(3), numbers((2, 3), 0).requires_grad_()
    many = torch.ones(4, 2, 3)
    with pytest.raises(RuntimeError, match=r"batched gradients.*torch\.func\.jacrev"):
        torch.autograd.grad(cell(values, values), values, many, is_grads_batched=True)


@pytest.mark.parametrize("how", ["in place", "data", "replaced"])
def test_weights_changed_between_hard_passes_are_transposed_again(catalog, how):
    encoder = encoder_of(catalog, "paper")
    inputs, mask = batch()
    kept = encoder(inputs, mask, hard=True)  # holds its graph
    with torch.no_grad():
        for layer in (encoder.cell.expand, encoder.cell.gates, encoder.scorer.convolution):
            if how == "in place":
                layer.weight.mul_(0.5)
            elif how == "data":
                layer.weight.data.mul_(0.5)
            else:
                layer.weight = torch.nn.Parameter(layer.weight * 0.5)
    got = encoder(inputs, mask, hard=True)
    with without():
        right = encoder(inputs, mask, hard=True)
    assert_close(got.vector, right.vector)
    assert not torch.equal(kept.vector, got.vector)


@pytest.mark.parametrize("raises", [False, True])
def test_a_forward_pass_keeps_nothing_for_the_next(catalog, raises):
    encoder, held = encoder_of(catalog, "paper"), None
    if raises:

        def fail(*_):
            raise ValueError("stop")

        handle = encoder.halting.register_forward_hook(fail)
        with pytest.raises(ValueError, match="stop"):
            encoder(*batch())
        handle.remove()
    else:
        held = encoder(*batch())
    cell, children = encoder.cell, numbers((40, encoder.width), 1)
    with torch.no_grad():
        cell.expand.weight.data.mul_(0.5)
        assert_close(cell(children, children), cell.layer_by_layer(children, children))
    assert raises or held.vector.requires_grad
