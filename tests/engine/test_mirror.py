"""A mirrored recursion: that of the opposite sequence, told of the sequence as it was given."""

import pytest
import torch

import engines
from crvnn_core.trees import trees_of
from crvnn_core.trees.gold import levels_of
from crvnn_parts.decisions.sigmoids import Modulated, Stretched

LENGTHS = [9, 6, 1, 2]
MASK = engines.mask_of(LENGTHS)
TOKENS = [[str(number) for number in range(length)] for length in LENGTHS]


def model(mirrored, decision=None):
    return engines.sharp(decision=decision or Modulated("bounded"), mirrored=mirrored, sharpness=20)


def inputs():
    return engines.batch(LENGTHS)[0]


def opposite(values):
    """Each sequence from its last token, by hand."""
    flipped = values.clone()
    for row, length in enumerate(LENGTHS):
        flipped[row, :length] = values[row, :length].flip(0)
    return flipped


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("decision", [Modulated("bounded"), Stretched(1.0, modulation="bounded")])
def test_vectors_and_gradients_are_those_of_the_opposite_sequence(hard, decision):
    one, two = inputs().requires_grad_(), opposite(inputs()).requires_grad_()
    mirrored, plain = model(True, decision), model(False, decision)
    found, expected = mirrored(one, MASK, hard=hard), plain(two, MASK, hard=hard)
    assert torch.equal(found.vector, expected.vector)
    assert torch.equal(found.steps, expected.steps)
    if not hard:
        found.vector.sum().backward()
        expected.vector.sum().backward()
        assert torch.equal(opposite(one.grad), two.grad)


def test_trees_of_hard_inference_are_the_mirror_images():
    found = trees_of(model(True)(inputs(), MASK, trace=True, hard=True), TOKENS)
    expected = trees_of(model(False)(opposite(inputs()), MASK, trace=True, hard=True), TOKENS)
    assert any(len(tree.spans()) > 1 for tree in found)
    for one, two, length in zip(found, expected, LENGTHS, strict=True):
        assert one.spans() == {(length - end, length - start) for start, end in two.spans()}


def test_a_trace_tells_of_the_gap_behind_each_token():
    found = model(True)(inputs(), MASK, trace=True).trace
    expected = model(False)(opposite(inputs()), MASK, trace=True).trace
    for one, two in ((found.compose, expected.compose), (found.exists, expected.exists)):
        for row, length in enumerate(LENGTHS):
            assert torch.equal(one[:, row, : length - 1], two[:, row, : length - 1].flip(1))
            assert torch.equal(one[:, row, length - 1 :], two[:, row, length - 1 :])


def test_composing_along_the_tree_of_hard_inference_gives_its_vector():
    encoder = model(True)
    hard = encoder(inputs(), MASK, trace=True, hard=True)
    levels = levels_of(trees_of(hard, TOKENS), MASK)
    assert torch.allclose(encoder(inputs(), MASK, levels=levels).vector, hard.vector)


def test_a_traceable_recursion_is_mirrored_too():
    encoder = model(True)
    assert torch.allclose(encoder.traceable(depth=8)(inputs(), MASK), encoder(inputs(), MASK).vector)
