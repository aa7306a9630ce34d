"""What compares an encoder with a slow twin: batches in float64, values and gradients."""

import torch

from engines import batch


def padded(lengths, width, seed=0, dtype=torch.float64):
    """Inputs that need gradients, and their mask."""
    inputs, mask = batch(lengths, width, seed, dtype)
    return inputs.requires_grad_(), mask


def assert_same(encoder, inputs, fast, slow, atol=1e-11, rtol=1e-8):
    """Tensors agree, and so do the gradients of inputs and parameters of a random function of all of them."""
    gradients = []
    for results in (fast, slow):
        generator = torch.Generator().manual_seed(5)
        weighted = (each * torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in results)
        loss = sum(each.sum() for each in weighted)
        places = [inputs, *encoder.parameters()]
        gradients.append(torch.autograd.grad(loss, places, materialize_grads=True))
    torch.testing.assert_close([*fast], [*slow], atol=atol, rtol=rtol)
    torch.testing.assert_close(*gradients, atol=atol, rtol=rtol)
