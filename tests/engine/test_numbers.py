"""Extreme numbers: an error or a finite answer, never NaN or infinity without a word."""

import pytest
import torch

import crvnn
from crvnn_core.errors import InputError
from engines import RETRIEVERS


def encoder(**parts):
    torch.manual_seed(0)
    return crvnn.CRvNN(width=8, **parts).eval()


def whole(inputs):
    return torch.ones(inputs.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize(
    "size", [0.0, 1e-38, 1e-20, 1e10, 1e15, 1e18, 1e30, 3e38, float("inf"), float("nan")]
)
def test_inputs_of_any_size_have_finite_vectors_or_are_refused(retriever, size):
    inputs = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1)).sign() * size
    model = encoder(retriever=retriever)
    if not size < 1e16:  # beyond 1e-3 times the root of the largest float32
        with pytest.raises(InputError, match=r"beyond 2e\+16|NaN or infinity"):
            model(inputs, whole(inputs))
        return
    assert model(inputs, whole(inputs)).vector.isfinite().all()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("decision", ["sigmoid", "modulated", "tempered", "stretched", "sparsemax"])
@pytest.mark.parametrize("scale", [1e3, 1e15])
def test_extreme_scores_give_finite_vectors_and_gradients(decision, scale):
    """Scores far beyond where a sigmoid saturates: c is 0 or 1, and e too."""
    model = encoder(decision=decision)
    with torch.no_grad():
        for parameter in model.scorer.parameters():
            parameter.mul_(scale)
    inputs = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(2), requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        encoding = model(inputs, whole(inputs))
        assert encoding.vector.isfinite().all()
        encoding.vector.sum().backward()
    assert inputs.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("length", [1, 3])
def test_short_sequences_under_anomaly_mode(retriever, length):
    inputs = torch.randn(2, length, 8, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        encoder(retriever=retriever)(inputs, whole(inputs)).vector.sum().backward()
    assert inputs.grad.isfinite().all()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_inputs_give_finite_vectors(kind):
    inputs = torch.randn(2, 6, 8).to(kind)
    with torch.autocast("cpu", dtype=kind):
        assert encoder()(inputs, whole(inputs)).vector.isfinite().all()


@pytest.mark.slow
def test_a_hundred_thousand_tokens_give_a_finite_vector():
    inputs = torch.randn(1, 100_000, 8)
    model = encoder(halting={"name": "fixed-depth", "depth": 2})
    with torch.no_grad():
        assert model(inputs, whole(inputs)).vector.isfinite().all()
