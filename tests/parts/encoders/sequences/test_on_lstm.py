"""The tree and the chunks of the ON-LSTM."""

import pytest
import torch

from crvnn_core import SpecError
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.sequences.on_lstm import ONLSTM
from sequence_twins import on_lstm_states
from small import variant

LETTERS = "abcdefghijk"


def top_down(tokens, distances):
    """Brackets of the tree that splits at the greatest distance first; ``distances[i]`` is that from i - 1 to i."""
    if len(tokens) == 1:
        return tokens
    split = max(range(1, len(tokens)), key=lambda place: (distances[place], -place))
    left, right = (top_down(tokens[part], distances[part]) for part in (slice(split), slice(split, None)))
    return f"({left} {right})"


@pytest.mark.parametrize(("layers", "used"), [(1, 0), (2, 1), (3, 1)])
def test_trees_split_at_the_greatest_distance_first(layers, used):
    encoder = ONLSTM(8, layers=layers, chunk=2)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.mul_(4)  # so that distances differ
    lengths = [4, 11, 1, 7]
    mask = torch.arange(11) < torch.tensor(lengths).unsqueeze(1)
    inputs = torch.randn(4, 11, 8)
    encoding = encoder(inputs, mask, trace=True)
    for row, (n, tree) in enumerate(
        zip(lengths, trees_of(encoding, [LETTERS[:n] for n in lengths]), strict=True)
    ):
        distances = on_lstm_states(encoder, inputs[row, :n])[1][used]
        assert str(tree) == top_down(LETTERS[:n], distances)


def test_of_equal_distances_the_left_one_splits_first():
    encoder = ONLSTM(8, chunk=2)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.zero_()
    encoding = encoder(torch.randn(1, 4, 8), torch.ones(1, 4, dtype=torch.bool), trace=True)
    assert encoding.joins == [[2, 1, 0]]


def test_a_spec_whose_chunk_does_not_fit_says_where():
    with pytest.raises(SpecError, match=r"model.encoder.chunk.*chunk must divide the width"):
        variant("model.encoder=on-lstm", "model.encoder.chunk=3")
