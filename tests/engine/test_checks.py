"""What the engine refuses: inputs, settings, and components that return the wrong shape."""

import pytest
import torch

from crvnn_core import ContractError, InputError
from crvnn_core.testing.parts import PlainCell, PlainDecision, PlainHalting, PlainScorer
from engines import engine, tokens

pytestmark = pytest.mark.usefixtures("by")


class TooWide(PlainCell):
    def forward(self, left, right):
        return torch.cat([left, right], -1)


class WrongLeaf(PlainCell):
    def leaf(self, inputs):
        return inputs[..., :2]


class FlatScorer(PlainScorer):
    def forward(self, vectors, near, left_c):
        return super().forward(vectors, near, left_c).unsqueeze(-1)


class FlatDecision(PlainDecision):
    def forward(self, scores, near, eligible, exists):
        return scores[:, :1]


class FloatHalting(PlainHalting):
    def forward(self, exists, vectors, step):
        return exists.sum(1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"cell": TooWide(4)}, r"cell TooWide returned the shape \[2, 8\]; \[2, 4\]"),
        ({"cell": WrongLeaf(4)}, "leaf transform of cell WrongLeaf"),
        ({"scorer": FlatScorer(4)}, "scorer FlatScorer"),
        ({"decision": FlatDecision()}, "decision FlatDecision"),
        ({"halting": FloatHalting()}, "halting FloatHalting returned torch.float32"),
    ],
)
def test_a_part_that_returns_the_wrong_shape_is_named(part, message):
    with pytest.raises(ContractError, match=message):
        engine(**part)(*tokens(3, 4))


def test_input_that_cannot_be_encoded_is_refused_by_its_position():
    model, mask = engine(), torch.ones(2, 3, dtype=torch.bool)
    nan = torch.randn(2, 3, 4)
    nan[1, 2, 0] = torch.inf
    hole = mask.clone()
    hole[0, 1] = False
    empty = mask.clone()
    empty[1] = False
    for inputs, which, message in (
        (nan, mask, "sequence 1 .* at token 2"),
        (torch.randn(2, 3, 4), hole, "sequence 0 .* padding before a token"),
        (torch.randn(2, 3, 4), empty, "sequence 1 .* is empty"),
        (torch.randn(2, 0, 4), torch.ones(2, 0, dtype=torch.bool), "empty"),
        (torch.randn(2, 3, 4), mask.float(), "bool mask"),
        (torch.randn(3, 4), mask, "takes inputs"),
        (torch.randn(2, 3, 5), mask, "5 numbers wide, but the encoder was built for 4"),
    ):
        with pytest.raises(InputError, match=message):
            model(inputs, which)
