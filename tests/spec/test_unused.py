"""Parts that cannot take effect, because the encoder has none of their kind."""

import warnings

import pytest

from crvnn_core import CrvnnWarning
from crvnn_core.spec import read_spec, write_spec
from spec_problems import problems_of, the_problem_of


def test_a_part_that_the_encoder_does_not_have_is_refused(catalog):
    problem = the_problem_of(catalog, parts={"encoder": "lstm", "cell": "gru"})
    assert problem.startswith("--cell gru: this has no effect: the encoder 'lstm' has no cell")
    assert "Encoders with one: balanced, " in problem
    assert "left-to-right" in problem


def test_settings_of_such_a_part_are_refused_with_their_line(catalog, spec_file):
    path = spec_file('[model]\nencoder = "balanced"\n\n[model.retriever]\nsmall = 3\n')
    problem = the_problem_of(catalog, path)
    assert (
        "my.toml:4 [model.retriever]: this has no effect: the encoder 'balanced' has no retriever" in problem
    )


def test_a_part_on_top_of_the_spec_that_names_the_encoder_is_refused(catalog, spec_file):
    spec_file('[model]\nencoder = "lstm"\n', "base.toml")
    path = spec_file('extends = "base.toml"\n[model]\ndecision = "sigmoid"\n')
    assert "the encoder 'lstm' has no decision" in the_problem_of(catalog, path)
    assert len(problems_of(catalog, path, sets=["model.cell.dropout=0.1"])) == 2


def test_another_encoder_on_top_of_a_spec_is_allowed_and_what_it_ignores_is_said(catalog, spec_file):
    path = spec_file('[model]\ncell = "gru"\n')
    with pytest.warns(CrvnnWarning, match=r"my\.toml:2 \[model\.cell\]: this has no effect") as caught:
        assert read_spec(catalog, path, parts={"encoder": "lstm"}).model.encoder.name == "lstm"
    assert len(caught) == 1


def test_another_encoder_on_top_of_a_spec_with_stages_is_allowed_and_said_once(catalog, spec_file):
    path = spec_file('[model]\ncell = "gru"\n\n[[stages]]\nname = "one"\n\n[[stages]]\nname = "two"\n')
    with pytest.warns(CrvnnWarning, match=r"\[model\.cell\]: this has no effect") as caught:
        assert len(read_spec(catalog, path, parts={"encoder": "lstm"}).stages) == 2
    assert len(caught) == 1


def test_a_preset_of_the_command_line_that_has_no_effect_is_said(catalog):
    with pytest.warns(CrvnnWarning, match="--preset reference: the encoder 'lstm' has none of the parts"):
        read_spec(catalog, preset="reference", parts={"encoder": "lstm"})


def test_what_the_default_preset_or_a_run_sets_is_no_ones_choice(catalog, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = read_spec(catalog, parts={"encoder": "lstm"})
        write_spec(spec, tmp_path / "spec.toml")  # which names a cell as well
        assert read_spec(catalog, tmp_path / "spec.toml") == spec
        read_spec(catalog, preset="paper", parts={"encoder": "left-to-right"})  # takes the preset's cell


def test_a_part_of_a_stage_is_refused_as_well(catalog, spec_file):
    path = spec_file('model.encoder = "lstm"\n[[stages]]\nmodel = {cell = "gru"}\n')
    problem = the_problem_of(catalog, path)
    assert "my.toml:3 [stages.1.model.cell]: this has no effect" in problem
