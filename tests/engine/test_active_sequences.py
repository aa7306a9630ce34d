"""Sequences and positions that the engine no longer computes, and the limits on steps."""

import pytest
import torch

from crvnn_core import Halting
from crvnn_core.testing.parts import AddingCell, PlainCell, PlainDecision, PlainScorer, ScriptedDecision
from crvnn_parts.haltings import FixedDepth, Never
from engines import batch, engine

pytestmark = pytest.mark.usefixtures("by")


def test_a_halted_sequence_keeps_its_vector_while_others_are_active():
    class OneStep(PlainDecision):
        """Composes everything at once in short sequences, and slowly in long ones."""

        def forward(self, scores, near, eligible, exists):
            return torch.where(eligible.sum(1, keepdim=True) <= 3, 1.0, 0.1) * eligible

    model = engine(decision=OneStep())
    inputs = torch.randn(3, 12, 4)
    # the first halts by itself, the second stays active, the third has no more steps
    mask = torch.arange(12) < torch.tensor([[4], [12], [2]])
    together = model(inputs, mask, trace=True)
    assert together.steps.tolist() == [1, 11, 1]
    for row, n in ((0, 4), (2, 2)):
        alone = model(inputs[row : row + 1, :n], mask[row : row + 1, :n])
        torch.testing.assert_close(together.vector[row], alone.vector[0], atol=1e-6, rtol=0)
        exists = together.trace.exists[:, row]
        assert torch.equal(exists[1:], exists[1].expand_as(exists[1:]))
        assert (together.trace.compose[1:, row] == 0).all()
    assert together.trace.alive.tolist() == [3] + [1] * 10


def test_a_halted_sequence_is_no_longer_computed():
    seen = []

    class Recording(PlainCell):
        def forward(self, left, right):
            seen.append(right.shape[:-1].numel())
            return super().forward(left, right)

    mask = torch.arange(12) < torch.tensor([[3], [12], [6]])
    encoding = engine(cell=Recording(4), halting=Never())(torch.randn(3, 12, 4), mask)
    assert encoding.steps.tolist() == [2, 11, 5]
    # Tokens behind the first one of each sequence; in a sequence's last step the root alone.
    assert seen == [2 + 11 + 5, 1 + 11 + 5, 11 + 5, 11 + 5, 11 + 1] + [11] * 5 + [1]


def test_positions_that_only_finished_sequences_had_are_dropped():
    seen = []

    class Recording(PlainScorer):
        def forward(self, vectors, near, left_c):
            seen.append(vectors.shape[1])
            return super().forward(vectors, near, left_c)

    class StopsTheLong(Halting):
        def forward(self, exists, vectors, step):
            return (exists > 0).sum(1) < 6

    mask = torch.arange(9) < torch.tensor([[9], [4]])
    engine(scorer=Recording(4), halting=StopsTheLong())(torch.randn(2, 9, 4), mask)
    assert seen[0] == 9
    assert seen[-1] == 4


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, [11, 1, 5]),
        ({"max_steps": 3}, [3, 1, 3]),
        ({"max_steps": 100}, [11, 1, 5]),
        ({"halting": FixedDepth(4)}, [4, 1, 4]),
    ],
    ids=str,
)
def test_no_sequence_takes_more_steps_than_it_may(options, steps):
    assert (
        engine(**{"halting": Never(), **options})(*batch([12, 2, 6], dtype=torch.float32)).steps.tolist()
        == steps
    )


def test_padding_that_all_sequences_share_costs_nothing():
    model = engine(boundaries=True)
    mask = torch.arange(50) < torch.tensor([[5], [3]])
    assert model.begin(torch.randn(2, 50, 4), mask).nodes.shape == (2, 7, 4)
    assert model(torch.randn(2, 50, 4), mask, trace=True).trace.exists.shape[2] == 50


def test_a_halting_is_given_the_node_vectors():
    class WhenSmall(Halting):
        def forward(self, exists, vectors, step):
            assert vectors.shape == (*exists.shape, 4)
            return vectors.abs().amax((1, 2)) > 1

    inputs = torch.stack([torch.full((5, 4), 0.1), torch.full((5, 4), 3.0)])
    model = engine(halting=WhenSmall(), cell=AddingCell(4), decision=ScriptedDecision([[]] * 9))
    assert model(inputs, torch.ones(2, 5, dtype=torch.bool)).steps.tolist() == [1, 4]
