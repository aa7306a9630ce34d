"""A mirrored recursion: that of the opposite sequence, told of the sequence as it was given."""

import pytest
import torch

from crvnn_core import Recursion
from crvnn_core.engine.mirror import mirrored_gaps, mirrored_tokens
from crvnn_core.trees import trees_of
from crvnn_core.trees.gold import levels_of, tree_along
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Modulated, Stretched
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer

LENGTHS = [9, 6, 1, 2]
MASK = torch.arange(9) < torch.tensor(LENGTHS).unsqueeze(1)
TOKENS = [[str(number) for number in range(length)] for length in LENGTHS]


def model(mirrored, decision=None, width=4):
    torch.manual_seed(2)
    scorer = WindowScorer(width, transition=3)
    with torch.no_grad():
        scorer.score.weight *= 20
    parts = (Adhoc(), scorer, decision or Modulated("bounded"), GatedCell(width), Threshold())
    return Recursion(width, *parts, mirrored=mirrored).double().eval()


def inputs(width=4):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(len(LENGTHS), 9, width, dtype=torch.float64, generator=generator)


def opposite(values):
    """Each sequence from its last token, by hand."""
    flipped = values.clone()
    for row, length in enumerate(LENGTHS):
        flipped[row, :length] = values[row, :length].flip(0)
    return flipped


def spans(tree):
    return {(node.start, node.end) for node in tree.nodes}


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
    assert any(len(spans(tree)) > 1 for tree in found)
    for one, two, length in zip(found, expected, LENGTHS, strict=True):
        assert spans(one) == {(length - end, length - start) for start, end in spans(two)}


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


def test_a_sampled_tree_is_the_one_that_was_composed_along():
    encoder = model(True)
    sampled = encoder.sample(inputs(), MASK, 1.0)
    assert torch.allclose(encoder(inputs(), MASK, levels=sampled.levels).vector, sampled.vector)


def test_cohesion_limits_the_pairs_that_it_names():
    cohesion = torch.zeros(MASK.shape, dtype=torch.long)
    cohesion[0, 1:3] = 1  # tokens 1, 2 and 3 belong together
    for _ in range(5):
        levels = model(True).sample(inputs(), MASK, 1.0, cohesion).levels
        assert (1, 4) in spans(tree_along(levels[0].tolist(), TOKENS[0]))


def test_a_traceable_recursion_is_mirrored_too():
    encoder = model(True)
    assert torch.allclose(encoder.traceable(depth=8)(inputs(), MASK), encoder(inputs(), MASK).vector)


def test_values_of_tokens_and_gaps_come_back_when_they_are_turned_twice():
    tokens, gaps = inputs(), inputs()[..., 0]
    assert torch.equal(mirrored_tokens(tokens, MASK), opposite(tokens))
    assert torch.equal(mirrored_gaps(mirrored_gaps(gaps, MASK), MASK), gaps)
    assert mirrored_gaps(gaps, MASK)[0, :8].tolist() == gaps[0, :8].flip(0).tolist()
