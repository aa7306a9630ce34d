"""Resolving a spec: presets, defaults, components and their parameters, and every problem at once."""

import os
from functools import partial

import pytest
import torch

from crvnn_core import (
    Component,
    PluginError,
    Preset,
    SpecError,
    UnknownNameError,
    create_plugin_manager,
    read_catalog,
)
from crvnn_core.spec import PartSpec, read_spec
from crvnn_parts.cells.gated import GatedCell
from spec_problems import problems_of, the_problem_of
from stub_plugins import plugin, with_components


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
def test_every_preset_resolves_and_contains_every_parameter(catalog, preset):
    spec = read_spec(catalog, preset=preset)
    parts = {
        slot: getattr(spec.model, slot)
        for slot in ("embedding", "encoder", "retriever", "scorer", "decision", "cell", "halting")
    }
    parts |= {"task": spec.task, "optimizer": spec.training.optimizer}
    for slot, part in parts.items():
        known = set(catalog.find(slot, part.name).component.settings(slot))
        assert set(part.params) == known, slot
    for key, value in catalog.presets[preset][0].model["encoder"].items():
        assert key == "name" or spec.model.encoder.params[key] == value


def test_nothing_at_all_is_the_paper_on_listops(catalog):
    spec = read_spec(catalog)
    assert spec == read_spec(catalog, preset="paper")
    assert (spec.task.name, spec.seed, spec.training.optimizer.name) == ("listops", 0, "ranger")
    assert spec.training.observers == (PartSpec("progress", {"lines": 10, "seconds": 30.0}),)


def test_a_preset_can_be_set_like_any_value(catalog):
    assert read_spec(catalog, sets=["preset=reference"]) == read_spec(catalog, preset="reference")


@pytest.mark.parametrize("text", ['preset = "papre"', 'preset = ["paper"]', "preset = 3"])
def test_an_unknown_preset_is_an_error_with_its_line(catalog, spec_file, text):
    path = spec_file(f"\n{text}\n")
    problem = the_problem_of(catalog, path)
    assert problem.startswith(f"{path}:2 [preset]: no preset is called")
    assert f"2 | {text}" in problem
    assert "Installed: paper, reference, simplified-2023." in problem
    assert "papre" not in text or "Did you mean 'paper'?" in problem


def test_a_part_is_a_name_or_a_table(catalog, spec_file):
    as_text = read_spec(catalog, spec_file('[model]\ncell = "lstm"\n', "text.toml"))
    as_table = read_spec(catalog, spec_file('[model.cell]\nname = "lstm"\n', "table.toml"))
    inline = read_spec(catalog, spec_file('[model]\ncell = {name = "lstm", dropout = 0.0}\n', "inline.toml"))
    assert as_text == as_table == inline
    assert as_text.model.cell.name == "lstm"
    assert as_text.model.cell.params["dropout"] == 0.0


def test_observers_are_a_list_of_names_and_tables(catalog, spec_file):
    text = '[training]\nobservers = ["progress", {name = "jsonl", path = "m.jsonl"}]\n'
    observers = read_spec(catalog, spec_file(text)).training.observers
    assert observers == (
        PartSpec("progress", {"lines": 10, "seconds": 30.0}),
        PartSpec("jsonl", {"path": "m.jsonl"}),
    )
    tables = '[[training.observers]]\nname = "jsonl"\npath = "m.jsonl"\n'
    assert read_spec(catalog, spec_file(tables)).training.observers == observers[1:]
    assert read_spec(catalog, sets=["training.observers=[]"]).training.observers == ()


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("training]\nobservers = [3]", "training.observers]: must name one observer"),
        ("training]\nobservers = [{hidden = 3}]", "training.observers]: must name one observer"),
        ("training]\nobservers = ['jsonl']", "training.observers]: observer 'jsonl' needs a 'path'"),
        ("model]\ncell = 3", "model.cell]: must name one cell, as a string or as a table with a 'name'"),
        ("model]\ncell = ['gated']", "model.cell]: must name one cell, as a string or as a table"),
    ],
)
def test_a_part_that_is_neither_a_name_nor_a_whole_table_is_an_error(catalog, spec_file, table, what):
    assert f"my.toml:2 [{what}" in the_problem_of(catalog, spec_file(f"[{table}\n"))


def test_a_preset_that_leaves_a_slot_open_needs_a_spec_that_fills_it(catalog):
    model = {slot: part for slot, part in catalog.presets["paper"][0].model.items() if slot != "cell"}
    catalog = with_components(plugin(crvnn_presets=[Preset("open", model)]))
    problem = the_problem_of(catalog, preset="open")
    assert "no cell is named, neither here nor by the preset" in problem
    assert read_spec(catalog, preset="open", parts={"cell": "lstm"}).model.cell.name == "lstm"


on_a_device = partial(lambda width, device: None, device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ("there_is_no_such_module:Cell", r"could not be imported: ModuleNotFoundError"),
        (on_a_device, r"the default of 'device'.* cannot be written in a spec"),
        (dict, r"its parameters cannot be read: .*no signature"),
    ],
)
def test_a_component_that_no_spec_can_describe_is_named_with_its_package(build, reason):
    catalog = with_components(cell=[Component("odd", build)])
    with pytest.raises(PluginError, match=rf"cell 'odd' \(Mine\):? {reason}"):
        read_spec(catalog, parts={"cell": "odd"})


def test_every_problem_of_a_file_is_reported_at_once_with_its_line_and_the_nearest_name(catalog, spec_file):
    path = spec_file(
        """sead = 1
[task]
name = "listop"
[model]
widht = 3
cell = "gatde"
input_dropout = 2
decision = {name = "modulated", from = "paper"}
[model.retriever]
name = "adhok"
[model.scorer]
window = "wide"
activation = "rely"
[model.encoder]
boundaries = 1
[training]
steps = true
observers = ["progres"]
[training.optimizer]
learning_rat = 1
"""
    )
    expected = {
        (1, "sead"): "a spec has no 'sead'. Did you mean 'seed'?",
        (3, "task"): "no task is called 'listop'. Did you mean 'listops'?",
        (5, "model.widht"): "[model] has no 'widht'. Did you mean 'width'?",
        (6, "model.cell"): "no cell is called 'gatde'. Did you mean 'gated'?",
        (7, "model.input_dropout"): "must be at least 0 and at most 1, not 2",
        (8, "model.decision.from"): "decision 'modulated' has no parameter 'from'. Did you mean 'form'?",
        (10, "model.retriever"): "no retriever is called 'adhok'. Did you mean 'adhoc'?",
        (12, "model.scorer.window"): "must be an integer, not 'wide'",
        (
            13,
            "model.scorer.activation",
        ): "must be one of 'gelu', 'gelu-tanh', 'relu', not 'rely'. Did you mean 'relu'?",
        (15, "model.encoder.boundaries"): "must be true or false, not 1",
        (17, "training.steps"): "must be an integer, not True",
        (18, "training.observers"): "no observer is called 'progres'. Did you mean 'progress'?",
        (20, "training.optimizer.learning_rat"): "optimizer 'ranger' has no parameter 'learning_rat'.",
    }
    lines = path.read_text().splitlines()
    problems = problems_of(catalog, path)
    for (line, key), what in expected.items():
        (problem,) = (text for text in problems if text.startswith(f"{path}:{line} [{key}]: "))
        assert what in problem
        assert f"  {line} | {lines[line - 1]}" in problem
    assert len(problems) == len(expected)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("model.width", "true", "must be an integer, not True"),
        ("model.width", "1.5", "must be an integer, not 1.5"),
        ("model.width", '"8"', "must be an integer, not '8'"),
        ("model.width", "0", "must be at least 1, not 0"),
        ("training.epochs", "-1", "must be at least 0, not -1"),
        ("model.output_dropout", "high", "must be a number, not 'high'"),
        ("model.output_dropout", "nan", "must be finite, not nan"),
        ("model.encoder.penalise", "none", "must be one of 'all', 'unhalted', not 'none'"),
        ("model.encoder.boundaries", "yes", "must be true or false, not 'yes'"),
        ("training.clip", "0", "must be above 0, not 0"),
        ("training.watch", "los", "must be one of 'accuracy', 'loss', not 'los'. Did you mean 'loss'?"),
        (
            "training.precision",
            "bf16",
            "must be one of '32', '64', '16-mixed', 'bf16-mixed', 'bf16-products', not",
        ),
        ("training.observers", "progress", "must be a list of observers, not 'progress'"),
        ("seed", "-1", "must be at least 0 and at most 9223372036854775807, not -1"),
        ("seed", "99999999999999999999", "and at most 9223372036854775807, not 99999999999999999999"),
        ("model", "3", "must be a table, not 3"),
        ("model.colour", "red", "[model] has no 'colour'."),
        ("model.cell.colour", "red", "cell 'gated' has no parameter 'colour'."),
        ("model.halting.epsilon.deep", "1", "must be a number, not {'deep': 1}"),
    ],
)
def test_a_wrong_value_is_an_error_that_says_what_was_wanted(catalog, key, value, what):
    problem = the_problem_of(catalog, sets=[f"{key}={value}"])
    assert problem.startswith(f"--set {key}={value}: ")
    assert what in problem


def test_a_part_of_the_command_line_is_named_as_it_was_given(catalog):
    problem = the_problem_of(catalog, parts={"retriever": "adhok"})
    assert problem.startswith("--retriever adhok: no retriever is called 'adhok'. Did you mean 'adhoc'?")
    assert "Installed: adhoc," in problem


def test_training_must_have_some_limit(catalog):
    (problem,) = problems_of(catalog, sets=["training.epochs=0"])
    assert "epochs and steps cannot both be without a limit; training would never end" in problem
    assert read_spec(catalog, sets=["training.epochs=0", "training.steps=1"]).training.steps == 1


def test_tokens_begin_at_random_unless_an_embedding_is_named(catalog):
    assert read_spec(catalog).model.embedding == PartSpec("random", {"size": 0, "bound": 0.0})
    sets = ["model.embedding=glove", "model.embedding.path=vectors.txt"]
    assert read_spec(catalog, sets=sets).model.embedding.params["path"] == os.path.abspath("vectors.txt")
    assert "must name one embedding" in the_problem_of(catalog, sets=["model.embedding=5"])


def test_a_wrong_preset_does_not_hide_the_other_problems(catalog, spec_file):
    path = spec_file('preset = "papr"\n[model]\nwidth = "x"\n')
    with pytest.raises(SpecError) as caught:
        read_spec(catalog, path, sets=["oops"])
    text = str(caught.value)
    assert "my.toml:1 [preset]: no preset is called 'papr'. Did you mean 'paper'?" in text
    assert "my.toml:3 [model.width]: must be an integer" in text
    assert "--set oops: write it as key=value" in text


def test_an_unknown_slot_in_python_is_named(catalog):
    with pytest.raises(UnknownNameError, match=r"no slot of a spec is called 'cel'\. Did you mean 'cell'\?"):
        read_spec(catalog, parts={"cel": "gated"})


def test_the_kinds_of_inherited_parameters_are_known():
    mine = type("Mine", (GatedCell,), {"__module__": "elsewhere"})
    problem = the_problem_of(
        with_components(cell=[Component("mine", mine)]),
        parts={"cell": "mine"},
        sets=["model.cell.activation=gleu"],
    )
    assert "must be one of 'gelu', 'gelu-tanh', 'relu', not 'gleu'. Did you mean 'gelu'" in problem


def test_a_wrong_preset_is_named_even_where_there_is_no_default_one():
    mine = read_catalog(create_plugin_manager(plugin(crvnn_presets=[Preset("mine", {})]), entry_points=False))
    assert "no preset is called 'mien'. Did you mean 'mine'?" in the_problem_of(mine, preset="mien")


def plain():
    """Builds nothing, without parameters."""


def test_the_defaults_are_what_plug_ins_say():
    mine = plugin(
        crvnn_tasks=[Component("sums", plain, default=True), Component("products", plain)],
        crvnn_embeddings=[Component("zeros", plain, default=True)],
        crvnn_encoders=[Component("mean", lambda width: None, default=True)],
        crvnn_cells=[Component("adding", lambda width: None, default=True)],
        crvnn_retrievers=[Component("matrix", plain)],
        crvnn_scorers=[Component("linear", plain)],
        crvnn_decisions=[Component("soft", plain)],
        crvnn_haltings=[Component("late", plain)],
        crvnn_objectives=[Component("surprise", plain, default=True)],
        crvnn_optimizers=[Component("sgd", lambda params, rate=0.5: None, default=True)],
        crvnn_observers=[Component("loud", plain, default=True), Component("calm", plain, default=True)],
        crvnn_presets=[
            Preset("all", dict.fromkeys(["retriever", "scorer", "decision", "halting"], "x"), default=False),
            Preset(
                "usual",
                {
                    "retriever": "matrix",
                    "scorer": "linear",
                    "decision": "soft",
                    "halting": "late",
                    "width": 5,
                },
                default=True,
            ),
        ],
    )
    spec = read_spec(read_catalog(create_plugin_manager(mine, entry_points=False)))
    assert (spec.task.name, spec.model.embedding.name, spec.model.cell.name) == ("sums", "zeros", "adding")
    assert (spec.model.retriever.name, spec.model.width) == ("matrix", 5)
    assert spec.training.objective == PartSpec("surprise", {})
    assert spec.training.optimizer == PartSpec("sgd", {"rate": 0.5})
    assert [part.name for part in spec.training.observers] == ["calm", "loud"]


def test_without_defaults_a_spec_is_told_what_it_must_name():
    mine = plugin(crvnn_tasks=[Component("sums", plain)], crvnn_cells=[Component("adding", plain)])
    problems = problems_of(read_catalog(create_plugin_manager(mine, entry_points=False)))
    assert any(
        "[task]: no task is named, neither here nor by a plug-in's default\n  Installed: sums." in problem
        for problem in problems
    )
    assert any(
        "no cell is named, neither here nor by the preset\n  Installed: adding." in p for p in problems
    )
    assert any("[training.optimizer]: no optimizer is named" in problem for problem in problems)
    assert not any("observer" in problem for problem in problems)  # there need not be any


def test_a_preset_goes_over_the_defaults(catalog):
    vectors = Preset("vectors", {**catalog.presets["paper"][0].model, "embedding": "glove"})
    both = with_components(plugin(crvnn_presets=[vectors]))
    sets = ["model.embedding.path=vectors.txt"]
    assert read_spec(both, preset="vectors", sets=sets).model.embedding.name == "glove"
    assert read_spec(both).model.embedding.name == "random"
