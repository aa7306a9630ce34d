"""``cyk`` against enumeration of all trees, and against its equations as a recursion."""

import pytest
import torch

from crvnn_core import InputError, set_progress
from crvnn_core.testing.parts import PlainCell
from crvnn_core.trees import trees_of
from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.encoders.trees.cyk import CYK
from latent_trees import LinearCell, all_trees, slow_chart
from slow_twins import assert_same, padded

LENGTHS = [4, 6, 1, 5, 2, 3]


def encoder_of(cell=PlainCell, **settings):
    torch.manual_seed(1)
    return CYK(4, cell(4), **settings).double().eval()


def test_with_a_linear_cell_and_score_the_vector_is_the_expectation_over_all_trees():
    encoder, (inputs, mask) = encoder_of(LinearCell, score="linear"), padded(LENGTHS, 4)
    found = [all_trees(encoder, row[:length]) for row, length in zip(inputs, LENGTHS, strict=True)]
    assert [len(trees) for trees in found] == [5, 42, 1, 14, 1, 2]  # Catalan numbers
    assert sum(p for p, _ in found[1]).item() == pytest.approx(1)
    slow = torch.stack([sum(p * root for p, root in trees) for trees in found])
    assert_same(encoder, inputs, [encoder(inputs, mask).vector], [slow])


@pytest.mark.parametrize(
    ("score", "cell", "checkpoint"),
    [
        ("cosine", PlainCell, False),
        ("cosine", LSTMCell, True),
        ("linear", PlainCell, True),
        ("linear", LSTMCell, False),
    ],
)
def test_the_chart_gives_what_the_equations_give(score, cell, checkpoint):
    encoder, (inputs, mask) = encoder_of(cell, score=score, checkpoint=checkpoint), padded(LENGTHS, 4)
    encoding = encoder(inputs, mask, trace=True)
    found = [slow_chart(encoder, row[:size]) for row, size in zip(inputs, LENGTHS, strict=True)]
    slow = torch.stack([encoder.cell.readout(node) for node, _ in found])
    trees = trees_of(encoding, [[str(i) for i in range(size)] for size in LENGTHS])
    assert [str(tree) for tree in trees] == [str(tree).replace(",", "") for _, tree in found]
    assert_same(encoder, inputs, [encoding.vector], [slow])
    assert encoding.steps.tolist() == [size - 1 for size in LENGTHS]


def test_the_temperature_falls_while_training_progresses():
    encoder = CYK(4, PlainCell(4))
    temperatures = []
    for progress in (0, 0.5, 1):
        set_progress(encoder, progress)
        temperatures.append(encoder.temperature.item())
    assert temperatures == pytest.approx([1, 0.5**0.5, 0.5])


def test_checkpointing_keeps_less_for_the_backward_pass():
    kept = {}
    for checkpoint in (False, True):
        encoder, (inputs, mask) = encoder_of(checkpoint=checkpoint), padded([12], 4)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda saved, sizes=sizes: (sizes.append(saved.numel()), saved)[1], lambda saved: saved
        ):
            encoder(inputs, mask)
        kept[checkpoint] = sum(sizes)
    assert kept[True] < kept[False] / 2


def test_a_sequence_over_the_limit_is_refused_with_the_way_out():
    inputs, mask = padded([3, 5], 4)
    with pytest.raises(InputError, match=r"sequence 1 of the batch has 5 tokens.*at most 4.*'max_tokens'"):
        encoder_of(max_tokens=4)(inputs, mask)
    assert encoder_of(max_tokens=0)(inputs, mask).vector.shape == (2, 4)
