"""The tree that an encoder shows is the one that it composes along, which a cell that writes brackets knows."""

import pytest
import torch

from crvnn_core import Recursion
from crvnn_core.testing.parts import BracketingCell, plain_parts
from crvnn_core.trees import trees_of
from crvnn_parts.encoders.fixed import Balanced
from crvnn_parts.encoders.recursion_in_recursion import RecursionInRecursion
from crvnn_parts.encoders.reinforced.cooperative import Cooperative
from crvnn_parts.encoders.reinforced.rl_spinn import RLSPINN
from crvnn_parts.encoders.trees.beams import BeamTree, EfficientBeamTree
from crvnn_parts.encoders.trees.cyk import CYK

WIDTH = 5
LENGTHS = [5, 1, 13, 2, 4]


def rl_spinn(width, cell):
    encoder = RLSPINN(width, cell)
    with torch.no_grad():
        encoder.score.weight.mul_(30)  # else it would nearly always shift first
    return encoder


def in_chunks(width, cell):
    return RecursionInRecursion(
        width, Recursion(width, **{**plain_parts(width), "cell": cell}, boundaries=False), 3
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "build",
    [
        Balanced,
        BeamTree,
        EfficientBeamTree,
        lambda width, cell: CYK(width, cell, score="linear"),
        rl_spinn,
        Cooperative,
        in_chunks,
    ],
)
def test_the_tree_that_is_shown_is_the_one_that_was_composed(build, seed):
    torch.manual_seed(seed)
    tokens = [f"x{place}" for place in range(max(LENGTHS))]
    cell = BracketingCell(WIDTH, tokens)
    encoder = build(WIDTH, cell).eval()
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    inputs = torch.zeros(*mask.shape, WIDTH)
    inputs[..., 0] = torch.arange(max(LENGTHS))
    encoding = encoder(inputs, mask, trace=True, **{"hard": True} if encoder.hard_inference else {})
    trees = trees_of(encoding, [tokens[:length] for length in LENGTHS])
    assert [str(tree) for tree in trees] == [cell.name(vector) for vector in encoding.vector]
    assert encoder(inputs, mask).joins is None
