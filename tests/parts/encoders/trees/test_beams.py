"""``beam-tree`` and ``efficient-beam-tree`` against enumeration, and against lists of beams."""

import pytest
import torch

from crvnn_core.testing.parts import PlainCell
from crvnn_core.trees import trees_of
from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.encoders.trees.beams import BeamTree, EfficientBeamTree
from latent_trees import (
    beam_tree_score,
    efficient_beam_tree_score,
    exhaustive,
    slow_beams,
)
from slow_twins import assert_same, padded

LENGTHS = [4, 6, 1, 5, 2, 3]
BOTH = pytest.mark.parametrize(
    ("kind", "score"), [(BeamTree, beam_tree_score), (EfficientBeamTree, efficient_beam_tree_score)]
)


def encoder_of(kind, beam, cell=PlainCell, width=4, sharpness=3.0):
    """An encoder in float64 whose scores differ clearly."""
    torch.manual_seed(1)
    encoder = kind(width, cell(width), beam).double().eval()
    with torch.no_grad():
        for parameter in encoder.scorer.parameters():
            parameter.mul_(sharpness)
    return encoder


@BOTH
def test_with_a_full_beam_the_vector_is_the_expectation_over_all_sequences_of_merges(kind, score):
    encoder, (inputs, mask) = encoder_of(kind, 120), padded(LENGTHS, 4)
    slow = [exhaustive(encoder, score, row[:length]) for row, length in zip(inputs, LENGTHS, strict=True)]
    assert_same(encoder, inputs, [encoder(inputs, mask).vector], [torch.stack(slow)])


@BOTH
@pytest.mark.parametrize(("beam", "cell"), [(1, PlainCell), (2, LSTMCell), (5, PlainCell)])
def test_a_narrow_beam_keeps_what_a_list_of_beams_keeps(kind, score, beam, cell):
    lengths = [*LENGTHS, 8]
    encoder, (inputs, mask) = encoder_of(kind, beam, cell), padded(lengths, 4)
    encoding = encoder(inputs, mask, trace=True)
    found = [slow_beams(encoder, score, row[:size]) for row, size in zip(inputs, lengths, strict=True)]
    assert_same(encoder, inputs, [encoding.vector], [torch.stack([vector for vector, _ in found])])
    trees = trees_of(encoding, [[str(place) for place in range(size)] for size in lengths])
    assert [str(tree) for tree in trees] == [str(tree).replace(",", "") for _, tree in found]
    assert encoding.steps.tolist() == [size - 1 for size in lengths]


def test_noise_in_training_changes_nothing_when_every_merge_is_kept():
    encoder, (inputs, mask) = encoder_of(EfficientBeamTree, 24), padded([5, 3, 4], 4)
    torch.testing.assert_close(encoder.train()(inputs, mask).vector, encoder.eval()(inputs, mask).vector)


def test_with_one_beam_training_samples_merges_by_their_probabilities():
    encoder, (inputs, _) = encoder_of(EfficientBeamTree, 1).train(), padded([3], 4)
    first, second, third = encoder.cell.leaf(inputs[0])
    logits = [efficient_beam_tree_score(encoder, *pair) for pair in ((first, second), (second, third))]
    chance = torch.stack(logits).softmax(0)[0].item()
    assert 0.1 < chance < 0.9
    rows = 4000
    torch.manual_seed(0)
    with torch.no_grad():
        sampled = encoder(inputs.expand(rows, 3, 4), torch.ones(rows, 3) > 0, trace=True).joins
    share = sum(joins == [0, 1] for joins in sampled) / rows
    assert abs(share - chance) < 4 * (chance * (1 - chance) / rows) ** 0.5


def test_beam_tree_selects_without_noise_in_training():
    encoder, (inputs, mask) = encoder_of(BeamTree, 2), padded([7, 4], 4)
    assert torch.equal(encoder.train()(inputs, mask).vector, encoder.eval()(inputs, mask).vector)


@pytest.mark.parametrize(("kind", "calls"), [(BeamTree, 9 + 8 * 5 * 2), (EfficientBeamTree, 9 * 5)])
def test_the_cell_composes_a_number_of_pairs_that_grows_linearly(kind, calls):
    composed = []

    class Counting(PlainCell):
        def forward(self, left, right):
            composed.append(left[..., 0].numel())
            return super().forward(left, right)

    encoder, (inputs, mask) = encoder_of(kind, 5, Counting), padded([10], 4)
    encoder(inputs, mask)
    assert sum(composed) == calls


def test_half_of_the_width_is_scored_by_default():
    assert EfficientBeamTree(128, PlainCell(128)).score_width == 64
    assert EfficientBeamTree(1, PlainCell(1)).score_width == 1
