"""The contract of decisions: built-in decisions satisfy it, and each check fails for a decision that violates it."""

import pytest
import torch

from contract_cases import component, contract_tests
from crvnn_core.kernels import in_use
from crvnn_core.testing import CHECKS, run_checks
from crvnn_core.testing.oracles import matrices
from crvnn_core.testing.parts import PlainDecision

EXCLUDED = "it is set: at most, two neighbours have c = 0.50 and 0.50"
POSSIBLE = "it is not set: conflicts are possible, two neighbours have c = 1.00 and 1.00"

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    ("modulated", ("form=bounded",)),
    ("modulated", ("form=reference",)),
    ("tempered", ("schedule=linear",)),
    *(
        (name, (f"modulation={modulation}",))
        for name in ("tempered", "gumbel-sigmoid", "straight-through", "stretched")
        for modulation in ("none", "bounded")
    ),
    ("sparsemax", ("modulation=none",)),
    ("sparsemax", ("share=0.2", "temperature=0.3")),
]


@pytest.fixture(autouse=True)
def neighbours_with_kernels(monkeypatch):
    """From a retriever with kernels, if they are in use, so that decisions reach theirs."""
    adhoc = component("retriever", "adhoc").load()()

    def neighbours(exists):
        if in_use():
            return adhoc(exists, torch.ones_like(exists, dtype=torch.bool))
        return matrices(exists)

    monkeypatch.setattr("crvnn_core.testing.generic.matrices", neighbours)


def decision(decide):
    class Faulty(PlainDecision):
        def forward(self, scores, near, eligible, exists):
            return decide(scores, eligible)

    return Faulty


def sigmoid(scores, eligible):
    return torch.sigmoid(scores) * eligible


class UndeclaredConflicts(PlainDecision):
    """Each position decides for itself, and is said to give way to its neighbours."""

    excludes_conflicts = True


class UndeclaredGradient(PlainDecision):
    """Hard forward, soft backward, declared to have no gradient where c is exactly 0 or 1."""

    gradient_vanishes = True

    def forward(self, scores, near, eligible, exists):
        return ((scores > 0).float() + (scores - scores.detach())) * eligible


class StraightThrough(PlainDecision):
    """A threshold forward, a sigmoid backward, declared to have no gradient at 0 and 1."""

    gradient_vanishes = True

    def forward(self, scores, near, eligible, exists):
        soft = sigmoid(scores, eligible)
        return (soft > 0.5).float() + soft - soft.detach()


class TopK(PlainDecision):
    """Composes by the distance to the row's second highest score, even one of a position with e = 0."""

    def forward(self, scores, near, eligible, exists):
        filled = torch.nn.functional.pad(scores.masked_fill(~eligible, -100.0), (0, 2), value=-100.0)
        return torch.sigmoid(scores - filled.topk(2, 1).values[:, 1:]) * eligible


class RowSoftmax(PlainDecision):
    """A softmax over the row, in which positions with e = 0 take part."""

    def forward(self, scores, near, eligible, exists):
        return torch.softmax(scores.masked_fill(~eligible, -1e9), 1) * eligible


class UndeclaredSaturation(UndeclaredGradient):
    gradient_vanishes = False
    can_saturate = False


def with_likelihood(likelihood):
    class Faulty(PlainDecision):
        def likelihood(self, scores, near, eligible, exists):
            return likelihood(scores, eligible)

    return Faulty


#: A check, a decision that fails it, and a part of the reason that is given.
FAULTY = [
    ("gives_probabilities", decision(lambda u, may: 1.5 * sigmoid(u, may)), "c is between 0 and 1."),
    ("gives_probabilities", decision(lambda u, may: may * torch.exp(u) / (1 + torch.exp(u))), "c has NaN"),
    (
        "gives_probabilities",
        decision(lambda u, may: torch.sigmoid(u)),
        "c is not 0 where a position is not eligible",
    ),
    ("gradient_vanishes_if_declared", UndeclaredGradient, "where c is exactly 0 or 1 it has a gradient"),
    ("gradient_vanishes_if_declared", StraightThrough, "as a straight-through estimate has"),
    ("saturates_only_if_declared", UndeclaredSaturation, "though can_saturate is false"),
    (
        "excludes_conflicts_if_declared",
        UndeclaredConflicts,
        "excludes_conflicts is set, but two neighbours have c = 1.00 and 1.00 in the same step",
    ),
    ("ignores_positions_that_are_gone", TopK, "positions that have e = 0, which still count"),
    ("ignores_positions_that_are_gone", RowSoftmax, "positions that have e = 0, which still count"),
    ("likelihood_is_a_probability", with_likelihood(lambda u, may: u * may), "the likelihood is between -"),
    (
        "likelihood_is_a_probability",
        with_likelihood(lambda u, may: torch.sigmoid(u)),
        "the likelihood is not 0 where a position is not eligible",
    ),
    (
        "likelihood_has_a_gradient",
        with_likelihood(lambda u, may: (1.2 * torch.sigmoid(u) - 0.1).clamp(0, 1) * may),
        "no gradient for scores of 6 and -6",
    ),
    ("follows_the_scores", decision(lambda u, may: sigmoid(-u, may)), "c falls while u rises"),
    ("follows_the_scores", decision(lambda u, may: 0.5 * may), "c does not depend on u"),
    (
        "ignores_padding",
        decision(lambda u, may: sigmoid(u - u.mean(1, keepdim=True), may)),
        "with other padding",
    ),
    (
        "passes_gradients",
        decision(lambda u, may: (u > 0) * may * torch.ones((), requires_grad=True)),
        "no gradient reaches the scores",
    ),
    ("passes_gradients", decision(lambda u, may: sigmoid(u * 0, may)), "the gradient of the scores is 0"),
    (
        "gives_probabilities",
        decision(lambda u, may: sigmoid(u, may) * (1 + 1e-6)),
        "c is between 0 and 1.000001",
    ),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests(
    "decision", PlainDecision, FAULTY, VARIANTS
)


@pytest.mark.parametrize(
    ("name", "sets", "said"),
    [
        ("modulated", (), EXCLUDED),
        ("stretched", (), EXCLUDED),
        ("stretched", ("modulation=none",), POSSIBLE),
        ("sigmoid", (), POSSIBLE),
        ("sparsemax", (), POSSIBLE),
        ("straight-through", ("threshold=0.6",), "it is not set: none were found"),
    ],
)
def test_it_is_said_whether_a_decision_excludes_conflicts(name, sets, said):
    (check,) = [each for each in CHECKS["decision"] if "conflicts" in each.__name__]
    (outcome,) = run_checks(component("decision", name, sets), [check])
    assert (outcome.kept, outcome.reason) == (True, said)
