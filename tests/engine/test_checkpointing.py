"""Activation checkpointing: the backward pass recomputes a step as it was."""

from functools import partial

import pytest
import torch

from crvnn_core.engine import checkpointing
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.decisions.sigmoids import Stretched
from crvnn_parts.haltings import Threshold
from engines import batch, sharp


class Counting(Threshold):
    """Counts how often it is asked."""

    def __init__(self, needs_vectors):
        super().__init__(0.05)
        self.needs_vectors, self.calls = needs_vectors, 0

    def forward(self, exists, vectors, step):
        self.calls += 1
        return super().forward(exists, vectors, step)


@pytest.mark.parametrize("needs_vectors", [False, True])
def test_recomputing_a_step_does_not_ask_the_halting_again(needs_vectors):
    halting = Counting(needs_vectors)
    encoder = sharp(sharpness=30.0, decision=Stretched(), halting=halting, checkpoint=True)
    loss = encoder(*batch([14, 9, 1])).vector.sum()
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
    sharp(checkpoint=True)(*batch([14, 9, 1]))
    assert seen
    assert all(torch.Tensor in types for types in seen)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_recomputing_steps_changes_nothing_and_keeps_less(dropout):
    kept, found = {}, []
    for checkpoint in (False, True):
        encoder = sharp(cell=partial(GatedCell, dropout=dropout), checkpoint=checkpoint, sharpness=1).train()
        sizes = kept[checkpoint] = []
        torch.manual_seed(5)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, sizes=sizes: sizes.append(t.numel()) or t, lambda t: t
        ):
            encoding = encoder(*batch([40, 25, 3]))
            (encoding.vector.sin().sum() + encoding.penalty.sum()).backward()
        found.append([encoding.vector, encoding.penalty, *(p.grad for p in encoder.parameters())])
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-6)
    assert sum(kept[True]) < 0.7 * sum(kept[False])  # (those of the recomputation are among them)
