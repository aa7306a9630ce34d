"""The contract of haltings: built-in haltings satisfy it, and each check fails for a halting that violates it."""

import pytest
import torch

from contract_cases import contract_tests, failures
from crvnn_core import StatefulHalting
from crvnn_core.testing.parts import PlainHalting
from engines import Converged

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [("threshold", ("epsilon=0.1",)), ("fixed-depth", ("depth=2",))]


class BatchHalting(PlainHalting):
    def forward(self, exists, vectors, step):
        return exists.sum(1) >= exists.sum(1).mean()


class AlternatingHalting(PlainHalting):
    answer = False

    def forward(self, exists, vectors, step):
        self.answer = not self.answer
        return super().forward(exists, vectors, step) & self.answer


class UndeclaredVectors(PlainHalting):
    needs_vectors = False

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


class MeanExistence(PlainHalting):
    """Halts by the mean over positions, some of which the engine's shortcuts remove."""

    def forward(self, exists, vectors, step):
        return exists.mean(1) > 0.1


class KeepsTheMean(PlainHalting):
    """Halts when the mean of the vectors, padding included, no longer changes; keeps the last one in the module."""

    before = torch.zeros(0)

    def forward(self, exists, vectors, step):
        before, self.before = self.before, vectors.mean(1)
        if step == 1 or before.shape != self.before.shape:
            return torch.ones_like(exists[:, 0], dtype=torch.bool)
        return (self.before - before).norm(dim=1) > 0.05


class MeanOfVectors(Converged):
    """The same with a state of its own for each sequence: padding still counts."""

    def initial_state(self, exists, vectors):
        return vectors.mean(1)


class OneStateForAll(Converged):
    def initial_state(self, exists, vectors):
        return super().initial_state(exists, vectors).sum(0)


class ForgetsItsState(Converged):
    def forward(self, exists, vectors, step, before):
        return super().forward(exists, vectors, step, before)[0]


class Undeclared(PlainHalting):
    forward = Converged.forward
    initial_state = Converged.initial_state


class LimitedHalting(PlainHalting):
    limit = 0


def halting(answer):
    class Faulty(PlainHalting):
        def forward(self, exists, vectors, step):
            return answer(super().forward(exists, vectors, step))

    return Faulty


#: A check, a halting that fails it, and a part of the reason that is given.
FAULTY = [
    ("answers_for_each_sequence", halting(lambda active: active.float()), "expected bool, got torch.float32"),
    (
        "answers_for_each_sequence",
        halting(lambda active: active.any()),
        "the shape of the answer: []; expected [3]",
    ),
    ("treats_each_sequence_alone", BatchHalting, "steps in a batch"),
    ("treats_each_sequence_alone", KeepsTheMean, "steps in a batch"),
    ("treats_each_sequence_alone", MeanOfVectors, "steps in a batch"),
    ("declares_its_state", KeepsTheMean, "keeps before in the module"),
    ("declares_its_state", OneStateForAll, "returned the shape [6]; [3] was expected"),
    ("declares_its_state", ForgetsItsState, "returned a Tensor; a stateful one must return two tensors"),
    ("declares_its_state", Undeclared, "missing 1 required positional argument: 'before'"),
    ("ignores_positions_that_are_gone", MeanExistence, "depends on positions with e = 0"),
    ("ignores_positions_that_are_gone", MeanOfVectors, "depends on positions with e = 0"),
    ("lets_fresh_sequences_go_on", halting(torch.zeros_like), "stops before anything was composed"),
    ("has_a_sensible_limit", LimitedHalting, "limit is 0"),
    ("is_deterministic", AlternatingHalting, "keeps state between calls"),
    ("needs_vectors_only_if_declared", UndeclaredVectors, "needs_vectors must be true"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("halting", PlainHalting, FAULTY, VARIANTS)


class SmallVectors(PlainHalting):
    """Halts by the node vectors of this sequence alone, which is allowed."""

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


class Patient(StatefulHalting):
    """Halts when existence has not decreased for two steps: its state is the last sum of e, and the steps since."""

    needs_vectors = False

    def initial_state(self, exists, vectors):
        return torch.stack([exists.sum(1), torch.zeros_like(exists[:, 0])], 1)

    def forward(self, exists, vectors, step, state):
        now, (before, waited) = exists.sum(1), state.unbind(1)
        waited = (waited + 1) * (before - now < 0.1)
        return waited < 2, torch.stack([now, waited], 1)


class Caching(PlainHalting):
    """Computes something once and for all, which is no state."""

    cached = None

    def forward(self, exists, vectors, step):
        if self.cached is None:
            self.cached = torch.full((), 0.01, device=exists.device)
        return (exists > self.cached).sum(1) > 1


@pytest.mark.parametrize("halting", [SmallVectors, Converged, Patient, Caching])
def test_a_halting_may_read_node_vectors_and_keep_a_state_for_each_sequence(halting):
    assert failures("halting", halting) == []
