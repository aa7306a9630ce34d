"""An encoder inside an encoder: how a spec names it, and what is said if it cannot be."""

import pytest

from crvnn_core.runs.directory import flatten
from crvnn_core.spec import read_spec, spec_dict, write_spec
from spec_problems import the_problem_of

WRAPPED = {"encoder": "recursion-in-recursion"}


def inner_of(spec):
    return spec.model.encoder.params["inner"]


def test_the_preset_s_encoder_is_inside_if_none_is_named(catalog):
    inner = inner_of(read_spec(catalog, parts=WRAPPED, preset="reference"))
    assert inner == read_spec(catalog, preset="reference").model.encoder


def test_settings_of_the_preset_s_encoder_are_set_where_it_is(catalog):
    inner = inner_of(read_spec(catalog, parts=WRAPPED, sets=["model.encoder.inner.halt_penalty=0.5"]))
    assert (inner.name, inner.params["halt_penalty"], inner.params["penalise"]) == ("crvnn", 0.5, "all")


def test_a_file_names_it_with_settings_and_an_option_names_another(catalog, spec_file):
    path = spec_file(
        '[model.encoder]\nname = "recursion-in-recursion"\nchunk = 5\n\n'
        '[model.encoder.inner]\nname = "lstm"\nlayers = 2\n'
    )
    assert dict(inner_of(read_spec(catalog, path)).params) == {"layers": 2, "dropout": 0.0}
    other = inner_of(read_spec(catalog, path, sets=["model.encoder.inner=transformer"]))
    assert dict(other.params) == {"layers": 2, "heads": 4, "dropout": 0.0}
    assert inner_of(read_spec(catalog, path, sets=["model.encoder.inner.layers=3"])).params["layers"] == 3


@pytest.mark.parametrize("backwards", [False, True])
def test_options_are_taken_in_any_order(catalog, backwards):
    sets = [
        "model.encoder=recursion-in-recursion",
        "model.encoder.inner=on-lstm",
        "model.encoder.inner.chunk=4",
        "model.encoder.chunk=9",
    ]
    spec = read_spec(catalog, sets=sets[::-1] if backwards else sets)
    assert (spec.model.encoder.params["chunk"], inner_of(spec).params["chunk"]) == (9, 4)


def test_encoders_nest_to_any_depth(catalog):
    sets = ["model.encoder.inner=recursion-in-recursion", "model.encoder.inner.inner=lstm"]
    spec = read_spec(catalog, parts=WRAPPED, sets=sets)
    assert [part.name for part in spec.model.encoder.nested()] == [*[WRAPPED["encoder"]] * 2, "lstm"]


def test_a_written_spec_is_read_as_the_same(catalog, tmp_path):
    spec = read_spec(catalog, parts=WRAPPED, sets=["task=listops", "model.encoder.inner=ndr"])
    write_spec(spec, tmp_path / "spec.toml")
    assert read_spec(catalog, tmp_path / "spec.toml") == spec
    flat = flatten(spec_dict(spec))
    assert (flat["model.encoder.inner"], flat["model.encoder.inner.layers"]) == ("ndr", 8)


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (
            ["inner=lstmm"],
            r"--set model.encoder.inner=lstmm: no encoder is called 'lstmm'. Did you mean 'lstm'",
        ),
        (["inner=lstm", "inner.layer=2"], "encoder 'lstm' has no parameter 'layer'. Did you mean 'layers'"),
        (["inner=lstm", "inner.layers=0"], "--set model.encoder.inner.layers=0: must be at least 1, not 0"),
        (["inner=lstm", "inner.width=3"], "encoder 'lstm' is always given the model's width"),
    ],
)
def test_a_problem_inside_is_placed_and_explained(catalog, sets, problem):
    assert problem in the_problem_of(catalog, parts=WRAPPED, sets=[f"model.encoder.{each}" for each in sets])


def test_parts_are_those_of_the_encoder_inside(catalog):
    read_spec(catalog, parts={**WRAPPED, "cell": "gru"})
    problem = the_problem_of(catalog, parts={**WRAPPED, "cell": "gru"}, sets=["model.encoder.inner=lstm"])
    assert "this has no effect: the encoder 'recursion-in-recursion' has no cell" in problem


def test_a_stage_may_set_what_is_inside(catalog, spec_file):
    path = spec_file(
        '[model]\nencoder = "recursion-in-recursion"\n\n[[stages]]\nname = "first"\n'
        "[stages.model.encoder.inner]\nhalt_penalty = 0.5\n\n[[stages]]\n"
    )
    first, last = read_spec(catalog, path).stages
    assert [stage.model.encoder.params["inner"].params["halt_penalty"] for stage in (first, last)] == [
        0.5,
        0.01,
    ]
