"""The search space: grids, conditional settings, and the tables that a trial lays over the spec."""

import pytest

from crvnn_experiments.space import Choice, Option, Range, combined, layer, samples, short_names, suggest

RATE = Range("rate", ("training", "rate"), 1e-4, 1e-2, log=True)
WIDTH = Range("width", ("model", "width"), 16, 64, step=16)
STRETCH = Range("decision.stretched.stretch", ("model", "decision", "stretch"), 0.1, 0.3, step=0.1)
DECISION = Choice(
    "decision",
    ("model", "decision"),
    (Option("sigmoid", "sigmoid"), Option("stretched", {"name": "stretched", "noise": True}, (STRETCH,))),
)
CELL = Choice("cell", ("model", "cell"), (Option("gated", "gated"), Option("gru", "gru")))
ENCODER = Choice(
    "encoder",
    ("model", "encoder"),
    (Option("crvnn", "crvnn"), Option("lstm", "lstm", without=frozenset({("model", "cell")}))),
)


class Script:
    """A trial whose sampler always takes the last choice and the lowest number."""

    def suggest_categorical(self, name, choices):
        return choices[-1]

    def suggest_int(self, name, low, high, step=1, log=False):
        return low

    def suggest_float(self, name, low, high, step=None, log=False):
        return low


def test_a_range_with_a_step_lists_its_values():
    assert WIDTH.values() == [16, 32, 48, 64]
    assert STRETCH.values() == [0.1, 0.2, 0.3]
    assert Range("n", ("n",), 1, 3).values() == [1, 2, 3]


@pytest.mark.parametrize("endless", [RATE, Range("x", ("x",), 0, 1.0), Range("x", ("x",), 1, 9, log=True)])
def test_a_range_without_a_step_has_too_many_values_to_list(endless):
    assert endless.values() is None


def test_a_grid_has_every_combination_and_conditional_settings_only_where_they_exist():
    assert list(combined([DECISION, CELL]))[:3] == [
        {"decision": "sigmoid", "cell": "gated"},
        {"decision": "sigmoid", "cell": "gru"},
        {"decision": "stretched", "decision.stretched.stretch": 0.1, "cell": "gated"},
    ]
    assert len(list(combined([DECISION, CELL]))) == 8


def test_a_sampler_is_asked_for_the_settings_of_the_choice_it_took():
    assert suggest([DECISION, RATE, WIDTH], Script()) == {
        "decision": "stretched",
        "decision.stretched.stretch": 0.1,
        "rate": 1e-4,
        "width": 16,
    }


def test_settings_without_effect_are_not_searched():
    assert list(combined([CELL, ENCODER])) == [
        {"encoder": "crvnn", "cell": "gated"},
        {"encoder": "crvnn", "cell": "gru"},
        {"encoder": "lstm"},
    ]
    assert suggest([CELL, ENCODER], Script()) == {"encoder": "lstm"}
    assert layer([CELL, ENCODER], {"encoder": "lstm"}) == {"model": {"encoder": "lstm"}}


def test_a_trial_lays_nested_tables_over_the_spec():
    params = {"decision": "stretched", "decision.stretched.stretch": 0.2, "width": 32}
    assert layer([WIDTH, DECISION], params) == {
        "model": {"width": 32, "decision": {"name": "stretched", "noise": True, "stretch": 0.2}}
    }
    assert DECISION.options[1].value == {"name": "stretched", "noise": True}  # is not changed by that


def test_every_choice_and_both_ends_of_a_range_are_checked_before_the_search():
    assert list(samples(DECISION)) == [
        {"decision": "sigmoid"},
        {"decision": "stretched", "decision.stretched.stretch": 0.1},
        {"decision": "stretched", "decision.stretched.stretch": 0.3},
    ]


def test_names_are_shortened_as_far_as_they_stay_unique():
    names = ["model.decision", "model.cell.hidden", "model.scorer.hidden", "task.rows"]
    assert list(short_names(names).values()) == ["decision", "cell.hidden", "scorer.hidden", "rows"]
