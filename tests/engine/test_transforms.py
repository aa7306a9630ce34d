"""torch.func and second derivatives: right, or refused; never numbers that lack terms."""

import pytest
import torch
from torch.func import functional_call, grad, jacrev, jvp, vmap

from crvnn_core.kernels import without
from twins import batch, encoder_of

LENGTHS = [5, 3]
#: Whether the intervals of ``adhoc`` are computed from dense matrices, or in linear time with a custom backward pass.
FORMS = pytest.mark.parametrize("small", [448, 0], ids=["dense", "linear"])


def _encoder(catalog, preset, small=448, *, double=False):
    encoder, (inputs, mask) = encoder_of(catalog, preset), batch(LENGTHS)
    encoder.retriever.small = small
    return (encoder.double(), inputs.double(), mask) if double else (encoder, inputs, mask)


def _gradient(encoder, inputs, mask):
    inputs = inputs.clone().requires_grad_()
    return torch.autograd.grad(encoder(inputs, mask).vector.pow(2).sum(), inputs)[0]


@pytest.mark.usefixtures("by")
@FORMS
@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_gradients_of_torch_func_are_those_of_autograd(catalog, preset, small):
    encoder, inputs, mask = _encoder(catalog, preset, small)
    found = grad(lambda x: encoder(x, mask).vector.pow(2).sum())(inputs)
    torch.testing.assert_close(found, _gradient(encoder, inputs, mask), atol=1e-5, rtol=1e-4)
    weights = dict(encoder.named_parameters())
    of_weights = grad(lambda w: functional_call(encoder, w, (inputs, mask)).vector.pow(2).sum())(weights)
    encoder(inputs, mask).vector.pow(2).sum().backward()
    for name, parameter in weights.items():
        if parameter.grad is not None:
            torch.testing.assert_close(of_weights[name], parameter.grad, atol=1e-4, rtol=1e-4, msg=name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.func.jvp compiles something with torch.jit
@FORMS
@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_forward_mode_and_second_derivatives_of_torch_func_are_those_of_finite_differences(
    catalog, preset, small
):
    encoder, inputs, mask = _encoder(catalog, preset, small, double=True)
    way, h = torch.randn_like(inputs), 1e-6

    def loss(x):
        return encoder(x, mask).vector.pow(2).sum()

    with torch.no_grad():
        slope = (loss(inputs + h * way) - loss(inputs - h * way)) / (2 * h)
    torch.testing.assert_close(jvp(loss, (inputs,), (way,))[1], slope, atol=1e-6, rtol=1e-5)
    turned = (_gradient(encoder, inputs + h * way, mask) - _gradient(encoder, inputs - h * way, mask)) / (
        2 * h
    )
    found = grad(lambda x: (grad(loss)(x) * way).sum())(inputs)
    torch.testing.assert_close(found, turned, atol=1e-5, rtol=1e-4)


def test_a_jacobian_has_the_gradient_of_each_number(catalog):
    encoder, inputs, mask = _encoder(catalog, "paper")
    found = jacrev(lambda x: encoder(x, mask).vector.sum(0))(inputs)  # [d, B, n, d]
    for place in range(len(found)):
        leaf = inputs.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(encoder(leaf, mask).vector[:, place].sum(), leaf)
        torch.testing.assert_close(found[place], wanted, atol=1e-5, rtol=1e-4)


def test_the_traceable_form_has_gradients_by_example(catalog):
    encoder, inputs, mask = _encoder(catalog, "paper")
    form = encoder.traceable(depth=inputs.shape[1])
    found = vmap(grad(lambda x, m: form(x.unsqueeze(0), m.unsqueeze(0)).pow(2).sum()))(inputs, mask)
    torch.testing.assert_close(found, _gradient(encoder, inputs, mask), atol=1e-5, rtol=1e-4)


def test_second_derivatives_of_autograd_are_right_or_refused(catalog):
    """With torch's ``once_differentiable``, autograd.grad would leave terms out without a word."""
    for small in (448, 0):
        encoder, inputs, mask = _encoder(catalog, "paper", small, double=True)

        def loss(x, encoder=encoder, mask=mask):
            return encoder(x, mask).vector.pow(2).sum()

        leaf = inputs.clone().requires_grad_()
        with without():
            if not small:
                with pytest.raises(RuntimeError, match=r"no second derivatives.*torch\.func\.grad"):
                    torch.autograd.grad(loss(leaf), leaf, create_graph=True)
                continue
            (first,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
            (second,) = torch.autograd.grad(first.pow(2).sum(), leaf)
        wanted = grad(lambda x: grad(loss)(x).pow(2).sum())(inputs)
        torch.testing.assert_close(second, wanted, atol=1e-9, rtol=1e-9)
