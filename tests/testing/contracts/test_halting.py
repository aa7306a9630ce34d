"""The contract of haltings: built-in haltings satisfy it, and each check fails for a halting that violates it."""

import pytest
import torch

from contract_cases import built_in, component, failures, faulty, names_of_checks, run_check
from contract_faults import with_live_setting
from crvnn_core import Component
from crvnn_core.testing import CHECKS
from crvnn_core.testing.parts import PlainHalting

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("threshold", ("epsilon=0.1",)),
    ("fixed-depth", ("depth=2",)),
]


@built_in("halting", VARIANTS)
def test_built_in_haltings_satisfy_their_contract(name, sets, check, by):
    check(component("halting", name, sets))


class BatchHalting(PlainHalting):
    def forward(self, exists, vectors, step):
        return exists.sum(1) >= exists.sum(1).mean()


class AlternatingHalting(PlainHalting):
    answer = False

    def forward(self, exists, vectors, step):
        self.answer = not self.answer
        return super().forward(exists, vectors, step) & self.answer


class SeededHalting(PlainHalting):
    def __init__(self):
        super().__init__()
        self.unsaved = torch.initial_seed() == 0

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & self.unsaved


class UndeclaredVectors(PlainHalting):
    needs_vectors = False

    def forward(self, exists, vectors, step):
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


class MeanExistence(PlainHalting):
    """Halts by the mean over positions, some of which the engine's shortcuts remove."""

    def forward(self, exists, vectors, step):
        return exists.mean(1) > 0.1


class LargestVector(PlainHalting):
    """Halts by the largest vector, which may belong to a position with e = 0."""

    def forward(self, exists, vectors, step):
        return vectors.abs().amax((1, 2)) > 0.01


class LimitedHalting(PlainHalting):
    limit = 0


def halting(answer):
    class Faulty(PlainHalting):
        def forward(self, exists, vectors, step):
            return answer(super().forward(exists, vectors, step))

    return Faulty


def test_a_plain_halting_satisfies_the_contract():
    assert failures("halting", PlainHalting) == []


#: A check, a halting that fails it, and a part of the reason that is given.
FAULTY = [
    ("halting_has_its_live_settings", with_live_setting(PlainHalting), "live_settings has temprature"),
    (
        "halting_answers_for_each_sequence",
        halting(lambda active: active.float()),
        "expected bool, got torch.float32",
    ),
    ("halting_answers_for_each_sequence", halting(lambda active: active.any()), "expected [3], got []"),
    ("halting_treats_each_sequence_alone", BatchHalting, "continues: "),
    ("halting_ignores_positions_that_are_gone", MeanExistence, "depends on positions with e = 0"),
    ("halting_ignores_positions_that_are_gone", LargestVector, "depends on positions with e = 0"),
    ("halting_lets_fresh_sequences_go_on", halting(torch.zeros_like), "stops before anything was composed"),
    ("halting_has_a_sensible_limit", LimitedHalting, "limit is 0"),
    ("halting_runs_on_any_device", halting(lambda active: torch.ones(len(active), dtype=torch.bool)), ""),
    (
        "halting_works_under_autocast",
        halting(lambda active: ~active if torch.is_autocast_enabled("cpu") else active),
        "under autocast the answer is another",
    ),
    ("halting_is_deterministic", AlternatingHalting, "keeps state between calls"),
    ("halting_needs_vectors_only_if_declared", UndeclaredVectors, "needs_vectors must be true"),
    ("halting_can_be_saved", SeededHalting, "state that is not saved"),
]


@faulty(FAULTY)
def test_a_check_that_fails_says_why_a_halting_is_faulty(check, build, reason):
    outcome = run_check(check, build)
    assert not outcome.kept
    assert outcome.reason
    assert reason in outcome.reason


def test_every_check_of_haltings_fails_for_a_faulty_halting():
    assert {check for check, _, _ in FAULTY} == names_of_checks("halting")


class SmallVectors(PlainHalting):
    """Halts by the node vectors of positions with e > 0 of this sequence alone, which is allowed."""

    def forward(self, exists, vectors, step):
        vectors = vectors * (exists > 0).unsqueeze(-1)
        return super().forward(exists, vectors, step) & (vectors.abs().amax((1, 2)) > 0.01)


@pytest.mark.parametrize("check", CHECKS["halting"], ids=lambda check: check.__name__)
def test_a_halting_may_read_the_node_vectors(check):
    check(Component("small-vectors", SmallVectors))
