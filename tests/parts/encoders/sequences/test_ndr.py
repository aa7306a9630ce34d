"""Geometric attention and the copy gate."""

import pytest
import torch

import small
from crvnn_parts.encoders.sequences.ndr import NDR, geometric_attention, scan_order
from sequence_twins import slow_geometric


def attention(scores, tokens=None):
    n = scores.shape[-1]
    tokens = torch.ones(n, dtype=torch.bool) if tokens is None else tokens
    return geometric_attention(scores, tokens.unsqueeze(-2), scan_order(n, scores.device))


def test_the_scan_goes_outwards_and_to_the_right_first():
    assert scan_order(4, torch.device("cpu")).tolist() == [
        [0, 1, 2, 3],
        [1, 2, 0, 3],
        [2, 3, 1, 0],
        [3, 2, 1, 0],
    ]


@pytest.mark.parametrize("n", [2, 5, 12])
def test_weights_and_gradients_are_those_of_walking_outwards(n):
    scores = torch.randn(n, n, dtype=torch.float64, requires_grad=True)
    got, want = attention(scores), slow_geometric(torch.sigmoid(scores))
    torch.testing.assert_close(got, want)
    weights = torch.randn(n, n, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((each * weights).sum(), scores)[0] for each in (got, want))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("size", [30.0, 1e4])
def test_extreme_scores_at_many_positions_stay_exact_and_have_finite_gradients(size):
    scores = (torch.randn(300, 300, generator=torch.Generator().manual_seed(0)) * size).requires_grad_()
    got = attention(scores)
    want = attention(scores.double())
    torch.testing.assert_close(got.double(), want, atol=1e-6, rtol=0)
    got.square().sum().backward()
    assert bool(scores.grad.isfinite().all())


def test_a_closed_gate_copies_and_an_open_one_does_not():
    inputs, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)
    closed, opened = (NDR(8, layers=3, gate_bias=bias)(inputs, mask).vector for bias in (-20.0, 3.0))
    torch.testing.assert_close(closed, inputs[:, -1])
    assert not torch.allclose(opened, inputs[:, -1], atol=0.1)


def test_the_gate_bias_survives_initial_weights_of_torch():
    assembly = small.variant("model.encoder=ndr", "model.initialisation=torch")
    assert bool((assembly.model.encoder.gate_bias == -3.0).all())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_long_sequences_are_encoded_under_autocast(kind):
    encoder, inputs = NDR(8, layers=4), torch.randn(1, 200, 8)
    mask = torch.ones(1, 200, dtype=torch.bool)
    with torch.autocast("cpu", dtype=kind):
        vector = encoder(inputs, mask).vector
    torch.testing.assert_close(vector.float(), encoder(inputs, mask).vector, atol=0.1, rtol=0)
