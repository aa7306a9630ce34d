"""The sequence encoders against their equations, one sequence at a time."""

import pytest
import torch

from crvnn_parts.encoders.sequences.lstm import LSTMEncoder
from crvnn_parts.encoders.sequences.ndr import NDR
from crvnn_parts.encoders.sequences.on_lstm import ONLSTM
from crvnn_parts.encoders.sequences.transformer import TransformerEncoder, positions
from crvnn_parts.encoders.sequences.universal_transformer import UniversalTransformer
from sequence_twins import slow_lstm, slow_ndr, slow_on_lstm, slow_transformer, slow_universal_transformer
from slow_twins import assert_same, padded

WIDTH = 8
LENGTHS = [3, 11, 1, 11, 6]


ENCODERS = {
    "one LSTM": (lambda: LSTMEncoder(WIDTH), slow_lstm),
    "three LSTMs": (lambda: LSTMEncoder(WIDTH, layers=3), slow_lstm),
    "Transformer": (lambda: TransformerEncoder(WIDTH), slow_transformer),
    "Transformer of one head": (lambda: TransformerEncoder(WIDTH, layers=1, heads=1), slow_transformer),
    "Universal Transformer": (lambda: UniversalTransformer(WIDTH, max_steps=4), slow_universal_transformer),
    "Universal Transformer that halts": (
        lambda: UniversalTransformer(WIDTH, max_steps=6, heads=1, halting_bias=-1.0, tau=0.0),
        slow_universal_transformer,
    ),
    "NDR": (lambda: NDR(WIDTH, layers=3), slow_ndr),
    "NDR of one head": (lambda: NDR(WIDTH, layers=1, heads=1, gate_bias=1.0), slow_ndr),
    "ON-LSTM": (lambda: ONLSTM(WIDTH, chunk=2), slow_on_lstm),
    "three ON-LSTMs": (lambda: ONLSTM(WIDTH, chunk=4, layers=3), slow_on_lstm),
}


@pytest.fixture(params=list(ENCODERS))
def encoder_and_slow(request):
    make, slow = ENCODERS[request.param]
    return make(), slow


@pytest.mark.parametrize("lengths", [LENGTHS, [4, 4]])
def test_vectors_and_gradients_are_those_of_the_equations(encoder_and_slow, lengths):
    encoder, slow = encoder_and_slow
    encoder.double()
    inputs, mask = padded(lengths, WIDTH)
    got = encoder(inputs, mask).vector
    want = torch.stack([slow(encoder, row[:n]) for row, n in zip(inputs, lengths, strict=True)])
    assert_same(encoder, inputs, [got], [want], atol=1e-5, rtol=1e-5)  # positions are computed in float32


@pytest.mark.parametrize("build", [LSTMEncoder, TransformerEncoder, ONLSTM])
def test_recurrent_networks_take_a_step_per_token_and_no_penalty(build):
    encoding = build(2 * WIDTH).double()(*padded(LENGTHS, 2 * WIDTH))
    assert encoding.steps.tolist() == LENGTHS
    assert encoding.penalty.tolist() == [0.0] * len(LENGTHS)


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_positions_are_sines_and_cosines_for_any_width_and_length(width):
    found = positions(3000, width, torch.empty(0))
    assert found.shape == (3000, width)
    torch.testing.assert_close(found[:, 0], torch.arange(3000.0).sin())
    half = (width + 1) // 2
    for place in range(half, width):  # each sine that has a cosine lies on the unit circle with it
        square = found[:, place - half] ** 2 + found[:, place] ** 2
        torch.testing.assert_close(square, torch.ones(3000))
    if width > 1:
        assert len(found.unique(dim=0)) == 3000  # no two places look alike


def test_layers_of_the_transformer_begin_with_weights_of_their_own():
    one, two = TransformerEncoder(WIDTH).stack.layers
    for name in ("linear1.weight", "linear2.weight", "self_attn.in_proj_weight"):
        assert not torch.equal(one.get_parameter(name), two.get_parameter(name))


def test_dropout_is_for_training_alone():
    stacked = (build(WIDTH, layers=2, dropout=0.5) for build in (LSTMEncoder, TransformerEncoder, NDR))
    others = (UniversalTransformer(WIDTH, dropout=0.5), ONLSTM(WIDTH, layers=2, chunk=2, dropout=0.5))
    for encoder in (*stacked, *others):
        batch = padded(LENGTHS, WIDTH, dtype=torch.float32)
        assert not torch.equal(encoder(*batch).vector, encoder(*batch).vector)
        encoder.eval()
        assert torch.equal(encoder(*batch).vector, encoder(*batch).vector)
