"""The contract of scorers: built-in scorers satisfy it, and each check fails for a scorer that violates it."""

import torch

from contract_cases import built_in, component, failures, faulty, names_of_checks, run_check
from contract_faults import (
    nan_in_half_precision,
    noisy,
    on_the_cpu,
    with_stale_weights,
    with_unsaved_state,
    with_unused_parameter,
)
from crvnn_core.testing.parts import PlainScorer

#: Settings away from the defaults: the component's name, and what is set.
VARIANTS = [
    *(("window", (f"window={window}",)) for window in (1, 3, 7)),
    ("window", ("transition=0",)),
    ("window", ("activation=relu",)),
    ("window", ("activation=gelu-tanh",)),
]


@built_in("scorer", VARIANTS)
def test_built_in_scorers_satisfy_their_contract(name, sets, check, by):
    check(component("scorer", name, sets))


def altered_scorer(alter):
    class Faulty(PlainScorer):
        def forward(self, vectors, near, left_c):
            return alter(super().forward(vectors, near, left_c), vectors)

    return Faulty


def test_a_plain_scorer_satisfies_the_contract():
    assert failures("scorer", PlainScorer) == []


#: A check, a scorer that fails it, and a part of the reason that is given.
FAULTY = [
    (
        "scorer_gives_one_score_a_position",
        altered_scorer(lambda scores, v: scores.unsqueeze(-1)),
        "expected [3, 7]",
    ),
    (
        "scorer_gives_one_score_a_position",
        altered_scorer(lambda scores, v: scores * torch.nan),
        "NaN or infinity",
    ),
    (
        "scorer_treats_each_sequence_alone",
        altered_scorer(lambda scores, v: scores - scores.mean()),
        "sequence 0",
    ),
    (
        "scorer_ignores_padding",
        altered_scorer(lambda scores, v: scores + v.mean((1, 2))[:, None]),
        "with other padding",
    ),
    (
        "scorer_ignores_positions_that_are_gone",
        altered_scorer(lambda scores, v: scores + v.roll(1, 1).mean(-1)),
        "positions that have e = 0, which are seen other than through near",
    ),
    (
        "scorer_has_gradients_of_its_present_weights",
        with_stale_weights(PlainScorer),
        "while graphs of earlier weights live",
    ),
    ("scorer_learns", with_unused_parameter(PlainScorer), "no gradient reaches the parameter 'unused'"),
    ("scorer_runs_on_any_device", altered_scorer(on_the_cpu), "fails on the meta device"),
    ("scorer_works_under_autocast", altered_scorer(nan_in_half_precision), "the scores has NaN or infinity"),
    ("scorer_is_deterministic", altered_scorer(noisy), "call 2 with the same input"),
    ("scorer_can_be_saved", with_unsaved_state(PlainScorer), "state that is not saved"),
]


@faulty(FAULTY)
def test_a_check_that_fails_says_why_a_scorer_is_faulty(check, build, reason):
    outcome = run_check(check, build)
    assert not outcome.kept
    assert outcome.reason
    assert reason in outcome.reason


def test_every_check_of_scorers_fails_for_a_faulty_scorer():
    assert {check for check, _, _ in FAULTY} == names_of_checks("scorer")
