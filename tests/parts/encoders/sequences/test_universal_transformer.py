"""Adaptive computation time: steps, remainders, penalty."""

import pytest
import torch

import small
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer
from sequence_twins import ponder

LENGTHS = [5, 1, 3]


@pytest.fixture
def batch():
    mask = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)
    return torch.randn(3, 5, 8, dtype=torch.float64), mask


@pytest.mark.parametrize("bias", [-3.0, -1.0, 0.5, 2.0])
def test_steps_and_penalty_are_those_of_the_equations(bias, batch):
    encoder = UniversalTransformer(8, max_steps=7, halting_bias=bias, tau=0.1).double()
    encoding = encoder(*batch)
    tokens = [ponder(encoder, row[:n]) for row, n in zip(batch[0], LENGTHS, strict=True)]
    assert encoding.steps.tolist() == [max(taken for _, taken, _ in each) for each in tokens]
    want = torch.stack([sum(0.1 * (taken + rest) for _, taken, rest in each) / len(each) for each in tokens])
    torch.testing.assert_close(encoding.penalty, want)
    ours, theirs = (
        torch.autograd.grad(each.sum(), [encoder.halting.weight, encoder.halting_bias])
        for each in (encoding.penalty, want)
    )
    torch.testing.assert_close(ours, theirs)


def test_tokens_halt_at_different_steps_and_keep_their_state(batch):
    encoder = UniversalTransformer(8, max_steps=12, halting_bias=-1.0).double()
    with torch.no_grad():
        encoder.halting.weight.mul_(4)
    taken = encoder.ponder(*batch)[1]
    assert len(set(taken[batch[1]].tolist())) > 1
    assert taken[~batch[1]].tolist() == [0] * 6


def test_stopping_when_all_have_halted_changes_nothing(batch):
    encoder = UniversalTransformer(8, max_steps=40, halting_bias=0.0).double()
    for early, late in zip(encoder.ponder(*batch, stop=True), encoder.ponder(*batch), strict=True):
        assert torch.equal(early, late)
    assert encoder(*batch).steps.max() < 40


def test_training_begins_with_many_steps(batch):
    """From a bias of 0 ACT would halt after about two."""
    assert UniversalTransformer(8, max_steps=15).double()(*batch).steps.min() > 5


def test_the_halting_bias_survives_initial_weights_of_torch():
    assembly = small.variant("model.encoder=universal-transformer", "model.initialisation=torch")
    assert assembly.model.encoder.halting_bias.item() == -3.0
