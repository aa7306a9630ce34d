"""Activation checkpointing: the backward pass recomputes a step as it was."""

import pytest
import torch

from crvnn_core import Recursion
from crvnn_core.engine import checkpointing
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Stretched
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer

WIDTH = 6


class Counting(Threshold):
    """Counts how often it is asked."""

    def __init__(self, needs_vectors):
        super().__init__(0.05)
        self.needs_vectors, self.calls = needs_vectors, 0

    def forward(self, exists, vectors, step):
        self.calls += 1
        return super().forward(exists, vectors, step)


def model(halting):
    torch.manual_seed(3)
    scorer = WindowScorer(WIDTH)
    with torch.no_grad():
        scorer.score.weight *= 30
    parts = {"retriever": Adhoc(), "scorer": scorer, "decision": Stretched(), "halting": halting}
    return Recursion(WIDTH, **parts, cell=GatedCell(WIDTH), checkpoint=True)


def batch():
    torch.manual_seed(1)
    return torch.randn(3, 14, WIDTH), torch.arange(14) < torch.tensor([[14], [9], [1]])


@pytest.mark.parametrize("needs_vectors", [False, True])
def test_recomputing_a_step_does_not_ask_the_halting_again(needs_vectors):
    halting = Counting(needs_vectors)
    loss = model(halting)(*batch()).vector.sum()
    asked = halting.calls
    assert asked > 1
    loss.backward()
    assert halting.calls == asked


def test_torch_is_given_a_tensor_whose_device_has_the_random_state(monkeypatch):
    """On a GPU torch restores the random state of the devices of tensors among the arguments, and of no others."""
    seen = []

    def spy(function, *args, **options):
        seen.append([type(argument) for argument in args])
        return function(*args)

    monkeypatch.setattr(checkpointing, "checkpoint", spy)
    model(Threshold())(*batch())
    assert seen
    assert all(torch.Tensor in types for types in seen)
