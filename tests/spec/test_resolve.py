"""Specs: layers, checks, and writing what was resolved."""

import os
import tomllib
from functools import partial

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crvnn_core import (
    Component,
    CrvnnError,
    PluginError,
    Preset,
    SpecError,
    UnknownNameError,
    assemble,
    create_plugin_manager,
    hookimpl,
    read_catalog,
)
from crvnn_core.spec import PartSpec, read_spec, spec_dict, spec_text, write_spec
from crvnn_core.spec.layers import key_lines
from crvnn_core.spec.values import check_value
from crvnn_plugins.cells.gated import GatedCell


@pytest.fixture
def spec_file(tmp_path):
    """Writes a spec and gives its path."""

    def write(text, name="my.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems_of(catalog, *args, **kwargs):
    with pytest.raises(SpecError) as caught:
        read_spec(catalog, *args, **kwargs)
    return [str(problem) for problem in caught.value.problems]


def the_problem_of(catalog, *args, **kwargs):
    (problem,) = problems_of(catalog, *args, **kwargs)
    return problem


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
    for key, value in catalog.preset(preset).model["encoder"].items():
        assert key == "name" or spec.model.encoder.params[key] == value


def test_nothing_at_all_is_the_paper_on_listops(catalog):
    spec = read_spec(catalog)
    assert spec == read_spec(catalog, preset="paper")
    assert (spec.task.name, spec.seed, spec.training.optimizer.name) == ("listops", 0, "ranger")
    assert spec.training.observers == (PartSpec("progress", {"lines": 10}),)


def test_a_file_goes_over_its_preset(catalog, spec_file):
    path = spec_file(
        'preset = "reference"\nseed = 7\n[model]\nwidth = 32\n[model.encoder]\nextra_steps = 3\n'
    )
    spec = read_spec(catalog, path)
    assert (spec.seed, spec.model.width, spec.model.encoder.params["extra_steps"]) == (7, 32, 3)
    assert spec.model.encoder.params["penalise"] == "unhalted"  # the preset's, still


def test_the_command_line_goes_over_the_file(catalog, spec_file):
    path = spec_file('preset = "reference"\n[model]\nwidth = 32\ncell = "gru"\n')
    spec = read_spec(catalog, path, preset="paper", parts={"cell": "lstm"}, sets=["model.width=16"])
    assert (spec.model.cell.name, spec.model.width) == ("lstm", 16)
    assert spec.model.encoder.params["penalise"] == "all"


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


def test_a_spec_may_extend_another_which_extends_a_third(catalog, spec_file):
    spec_file('preset = "reference"\nseed = 1\n[model]\nwidth = 8\ncell = "rnn"\n', "lowest.toml")
    spec_file('extends = "lowest.toml"\nseed = 2\n[model]\nwidth = 16\n', "middle.toml")
    spec = read_spec(catalog, spec_file('extends = "middle.toml"\nseed = 3\n', "top.toml"))
    assert (spec.seed, spec.model.width, spec.model.cell.name) == (3, 16, "rnn")
    assert spec.model.encoder.params["penalise"] == "unhalted"


def test_extending_is_relative_to_the_file(catalog, spec_file, tmp_path):
    (tmp_path / "sub").mkdir()
    spec_file("seed = 5\n", "base.toml")
    assert read_spec(catalog, spec_file('extends = "../base.toml"\n', "sub/mine.toml")).seed == 5


def test_files_that_extend_each_other_are_an_error(catalog, spec_file):
    spec_file('extends = "two.toml"\n', "one.toml")
    path = spec_file('extends = "one.toml"\n', "two.toml")
    problem = the_problem_of(catalog, path)
    assert "this file extends itself, by way of" in problem
    assert "one.toml" in problem
    assert "two.toml" in problem


def test_a_missing_file_to_extend_is_an_error_that_lists_what_is_there(catalog, spec_file):
    spec_file("", "base.toml")
    problem = the_problem_of(catalog, spec_file('extends = "bass.toml"\n'))
    assert "bass.toml: there is no such file" in problem
    assert "base.toml, my.toml" in problem


def test_what_is_extended_must_be_a_path(catalog, spec_file):
    problem = the_problem_of(catalog, spec_file("extends = 3\n"))
    assert "my.toml:1 [extends]: must be the path of another spec" in problem


def test_a_problem_in_an_extended_file_is_reported_there(catalog, spec_file):
    below = spec_file("\n[model]\nwidht = 3\n", "below.toml")
    problem = the_problem_of(catalog, spec_file('extends = "below.toml"\n'))
    assert problem.startswith(f"{below}:3 [model.widht]")


def test_a_part_is_a_name_or_a_table(catalog, spec_file):
    as_text = read_spec(catalog, spec_file('[model]\ncell = "lstm"\n', "text.toml"))
    as_table = read_spec(catalog, spec_file('[model.cell]\nname = "lstm"\n', "table.toml"))
    inline = read_spec(catalog, spec_file('[model]\ncell = {name = "lstm", dropout = 0.0}\n', "inline.toml"))
    assert as_text == as_table == inline
    assert as_text.model.cell == PartSpec("lstm", {"dropout": 0.0})


def test_naming_another_component_drops_the_old_parameters(catalog, spec_file):
    path = spec_file('[model.cell]\nname = "gated"\nhidden = 48\ndropout = 0.5\n')
    assert read_spec(catalog, path, parts={"cell": "lstm"}).model.cell == PartSpec("lstm", {"dropout": 0.0})


def test_naming_the_same_component_again_keeps_its_parameters(catalog, spec_file):
    path = spec_file('[model.cell]\nname = "gated"\nhidden = 48\n')
    assert read_spec(catalog, path, parts={"cell": "gated"}).model.cell.params["hidden"] == 48
    spec = read_spec(catalog, path, sets=["model.cell.dropout=0.25"])
    assert (spec.model.cell.params["hidden"], spec.model.cell.params["dropout"]) == (48, 0.25)


def test_parameters_without_a_name_go_to_the_component_below(catalog, spec_file):
    cell = read_spec(catalog, spec_file("[model.cell]\nhidden = 48\n")).model.cell
    assert (cell.name, cell.params["hidden"]) == ("gated", 48)


def test_observers_are_a_list_of_names_and_tables(catalog, spec_file):
    text = '[training]\nobservers = ["progress", {name = "jsonl", path = "m.jsonl"}]\n'
    observers = read_spec(catalog, spec_file(text)).training.observers
    assert observers == (PartSpec("progress", {"lines": 10}), PartSpec("jsonl", {"path": "m.jsonl"}))
    tables = '[[training.observers]]\nname = "jsonl"\npath = "m.jsonl"\n'
    assert read_spec(catalog, spec_file(tables)).training.observers == observers[1:]
    assert read_spec(catalog, sets=["training.observers=[]"]).training.observers == ()


@pytest.mark.parametrize("value", ["3", '["gated"]', "{hidden = 3}"])
def test_a_part_that_is_neither_a_name_nor_a_table_with_one_is_an_error(catalog, spec_file, value):
    text = f"[training]\nobservers = [{value}]\n"
    assert "my.toml:2 [training.observers]: must name one observer" in the_problem_of(
        catalog, spec_file(text)
    )
    if "hidden" not in value:
        problem = the_problem_of(catalog, spec_file(f"[model]\ncell = {value}\n"))
        assert "my.toml:2 [model.cell]: must name one cell, as a text or as a table with a 'name'" in problem


def test_a_missing_parameter_is_an_error(catalog, spec_file):
    path = spec_file('[training]\nobservers = ["jsonl"]\n')
    assert "my.toml:2 [training.observers]: observer 'jsonl' needs a 'path'" in the_problem_of(catalog, path)


def test_a_preset_that_leaves_a_slot_open_needs_a_spec_that_fills_it(catalog):
    model = {slot: part for slot, part in catalog.preset("paper").model.items() if slot != "cell"}

    class Open:
        @hookimpl
        def crvnn_presets(self):
            return [Preset("open", model)]

    catalog = read_catalog(create_plugin_manager(Open()))
    problem = the_problem_of(catalog, preset="open")
    assert "no cell is named, neither here nor by the preset" in problem
    assert read_spec(catalog, preset="open", parts={"cell": "lstm"}).model.cell.name == "lstm"


def test_a_component_that_cannot_be_imported_is_named_with_its_package():
    class Mine:
        @hookimpl
        def crvnn_cells(self):
            return [Component("absent", "there_is_no_such_module:Cell")]

    with pytest.raises(
        PluginError, match=r"cell 'absent' \(Mine\) could not be imported: ModuleNotFoundError"
    ):
        read_spec(read_catalog(create_plugin_manager(Mine())), parts={"cell": "absent"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("model.width=128", 128),
        ("model.input_dropout=0.5", 0.5),
        ("model.output_dropout=1", 1.0),
        ("model.encoder.boundaries=false", False),
        ("model.cell.activation=relu", "relu"),
        ('model.cell.activation="relu"', "relu"),
        (" model . cell.hidden = 48", 48),
        ("training.optimizer.learning_rate=1e-4", 1e-4),
        ("seed=3", 3),
    ],
)
def test_any_value_can_be_set(catalog, text, value):
    found = read_spec(catalog, sets=[text])
    for key in (part.strip() for part in text.partition("=")[0].split(".")):
        found = found.params[key] if isinstance(found, PartSpec) else getattr(found, key)
    assert found == value
    assert type(found) is type(value)


def test_a_part_can_be_set_by_name(catalog):
    assert read_spec(catalog, sets=["model.cell=lstm"]) == read_spec(catalog, parts={"cell": "lstm"})
    assert read_spec(catalog, sets=["task.max_tokens=30"]).task.params["max_tokens"] == 30


def test_the_last_set_counts(catalog):
    assert read_spec(catalog, sets=["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("text", ["model.width", "=3", "model..width=3", ".=1"])
def test_a_set_without_key_or_value_is_an_error_that_shows_how(catalog, text):
    problem = the_problem_of(catalog, sets=[text])
    assert problem.startswith(f"--set {text}: write it as key=value, for example --set model.cell.hidden=256")


def test_every_unreadable_set_is_reported_at_once(catalog):
    assert len(problems_of(catalog, sets=["a", "b", "seed=1"])) == 2


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
        (7, "model.input_dropout"): "must be at least 0 and at most 1, not 2.0",
        (8, "model.decision.from"): "decision 'modulated' has no parameter 'from'. Did you mean 'form'?",
        (10, "model.retriever"): "no retriever is called 'adhok'. Did you mean 'adhoc'?",
        (12, "model.scorer.window"): "must be a whole number, not 'wide'",
        (
            13,
            "model.scorer.activation",
        ): "must be one of 'gelu', 'gelu-tanh', 'relu', not 'rely'. Did you mean 'relu'?",
        (15, "model.encoder.boundaries"): "must be true or false, not 1",
        (17, "training.steps"): "must be a whole number, not True",
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
        ("model.width", "true", "must be a whole number, not True"),
        ("model.width", "1.5", "must be a whole number, not 1.5"),
        ("model.width", '"8"', "must be a whole number, not '8'"),
        ("model.width", "[8]", "must be a whole number, not [8]"),
        ("model.width", "0", "must be at least 1, not 0"),
        ("training.epochs", "-1", "must be at least 0, not -1"),
        ("model.output_dropout", "high", "must be a number, not 'high'"),
        ("model.output_dropout", "false", "must be a number, not False"),
        ("model.output_dropout", "nan", "must be at least 0 and at most 1, not nan"),
        ("model.encoder.penalise", "none", "must be one of 'all', 'unhalted', not 'none'"),
        ("model.encoder.penalise", "1", "must be one of 'all', 'unhalted', not 1"),
        ("model.encoder.boundaries", "yes", "must be true or false, not 'yes'"),
        ("training.clip", "0", "must be above 0, not 0.0"),
        ("training.batch", "0", "must be at least 1, not 0"),
        ("training.anneal", "1", "must be true or false, not 1"),
        ("training.watch", "los", "must be one of accuracy, loss, not 'los'. Did you mean 'loss'?"),
        ("training.accelerator", "gpu", "must be one of auto, cpu, cuda, mps, not 'gpu'."),
        ("training.precision", "bf16", "must be one of 32, 64, 16-mixed, bf16-mixed, not 'bf16'."),
        ("training.observers", "progress", "must be a list of observers, not 'progress'"),
        ("seed", "-1", "must be at least 0 and at most 9223372036854775807, not -1"),
        ("seed", "99999999999999999999", "and at most 9223372036854775807, not 99999999999999999999"),
        ("model", "3", "must be a table, not 3"),
        ("training", "fast", "must be a table, not 'fast'"),
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


def test_a_whole_number_will_do_for_a_number():
    value = check_value(3, float)
    assert (value, type(value)) == (3.0, float)


def test_a_value_without_annotation_may_be_anything():
    assert check_value([1, "a"], Component("x", lambda thing: thing).parameters()["thing"].annotation) == [
        1,
        "a",
    ]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (list[int], [1, 2], ["a"]),
        (list[str], ["a"], "ab"),
        (list[str] | str, "ab", 3),
        (list[str] | str, ["a"], [1]),
        (int | None, None, "a"),
    ],
)
def test_other_annotations_are_checked_too(annotation, good, bad):
    assert check_value(good, annotation) == good
    with pytest.raises(ValueError, match="must be"):
        check_value(bad, annotation)


def test_text_that_is_not_toml_is_an_error_with_its_line(catalog, spec_file):
    problem = the_problem_of(catalog, spec_file("seed = 1\n[model\nwidth = 3\n"))
    assert "my.toml:2: this is not TOML" in problem
    assert "2 | [model" in problem


def test_text_that_breaks_off_is_an_error_with_its_last_line(catalog, spec_file):
    problem = the_problem_of(catalog, spec_file('seed = 1\n[model]\ncell = """gated\n'))
    assert "my.toml:3: this is not TOML" in problem


def test_a_directory_is_an_error(catalog, tmp_path):
    assert the_problem_of(catalog, tmp_path) == f"{tmp_path}: this is a directory; a spec is a TOML file"


def test_a_missing_file_is_an_error_that_lists_the_specs_beside_it(catalog, spec_file, tmp_path):
    spec_file("", "one.toml")
    spec_file("", "two.toml")
    spec_file("", "notes.txt")
    problem = the_problem_of(catalog, tmp_path / "tow.toml")
    assert problem == f"{tmp_path / 'tow.toml'}: there is no such file\n  {tmp_path} has one.toml, two.toml."
    assert the_problem_of(catalog, tmp_path / "no" / "way.toml").endswith("there is no such file")


def test_a_file_that_is_not_utf_8_is_an_error(catalog, tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes("# d\xe9j\xe0 vu\nseed = 1\n".encode("latin-1"))
    assert f"{path}: the file cannot be read" in the_problem_of(catalog, path)


def test_keys_are_found_on_their_lines():
    text = 'a = 1\n# b = 2\n[t]  # a table\nc.d = 3\n"e" = 4\n\n[[u.v]]\nw = {x = 1}\n'
    lines = {".".join(path): number for path, (number, _) in key_lines(text).items()}
    assert lines == {"a": 1, "t": 3, "t.c.d": 4, "t.e": 5, "u.v": 7, "u.v.w": 8}


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    width=st.integers(1, 10**6),
    dropout=st.floats(0, 1),
    rate=st.floats(0, 1e10, exclude_min=True, allow_subnormal=False),
    cell=st.sampled_from(["gated", "lstm", "gru", "rnn"]),
    preset=st.sampled_from(["paper", "reference", "simplified-2023"]),
    path=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_a_written_spec_reads_back_equal(
    catalog, tmp_path_factory, seed, width, dropout, rate, cell, preset, path
):
    sets = [f"seed={seed}", f"model.width={width}", f"model.input_dropout={dropout!r}"]
    sets.append(f"training.optimizer.learning_rate={rate!r}")
    spec = read_spec(catalog, preset=preset, parts={"cell": cell}, sets=sets)
    observed = PartSpec("jsonl", {"path": path})
    spec = _with_observer(spec, observed)
    target = tmp_path_factory.mktemp("written") / "spec.toml"
    write_spec(spec, target, ["a note", "another"])
    assert read_spec(catalog, target) == spec
    assert target.read_text(encoding="utf-8").startswith("# resolved by crvnn\n# a note\n# another\n")


def _with_observer(spec, part):
    return attrs.evolve(spec, training=attrs.evolve(spec.training, observers=(part,)))


def test_a_written_spec_does_not_depend_on_presets(catalog, tmp_path):
    spec = read_spec(catalog, preset="reference")
    write_spec(spec, tmp_path / "spec.toml")
    assert read_spec(catalog, tmp_path / "spec.toml", preset="simplified-2023") == spec


def test_a_written_spec_builds_the_same_weights(catalog, tmp_path):
    spec = read_spec(catalog, sets=["seed=11", "model.width=8"])
    write_spec(spec, tmp_path / "deep" / "spec.toml")
    one, two = (
        assemble(s, catalog).model.state_dict()
        for s in (spec, read_spec(catalog, tmp_path / "deep" / "spec.toml"))
    )
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_training_lasts_ten_epochs_of_batches_of_128_unless_told_otherwise(catalog):
    training = read_spec(catalog).training
    assert (training.epochs, training.steps, training.batch) == (10, 0, 128)
    assert (training.accelerator, training.devices, training.precision) == ("auto", 1, "32")


def test_training_must_have_some_limit(catalog):
    (problem,) = problems_of(catalog, sets=["training.epochs=0"])
    assert "epochs and steps cannot both be without a limit; training would never end" in problem
    assert read_spec(catalog, sets=["training.epochs=0", "training.steps=1"]).training.steps == 1


def test_tokens_begin_at_random_unless_an_embedding_is_named(catalog):
    assert read_spec(catalog).model.embedding == PartSpec("random", {"size": 0})
    sets = ["model.embedding=glove", "model.embedding.path=vectors.txt"]
    assert read_spec(catalog, sets=sets).model.embedding.params["path"] == "vectors.txt"
    assert "must name one embedding" in the_problem_of(catalog, sets=["model.embedding=5"])


def test_the_text_of_a_spec_is_toml_and_leaves_out_none(catalog):
    spec = _with_observer(read_spec(catalog), PartSpec("progress", {"lines": 10, "title": None}))
    assert tomllib.loads(spec_text(spec))["training"]["observers"] == [{"name": "progress", "lines": 10}]


@pytest.mark.parametrize("preset", ["paper", "reference", "simplified-2023"])
def test_the_tables_of_a_spec_are_what_reading_its_text_gives(catalog, preset):
    spec = _with_observer(
        read_spec(catalog, preset=preset),
        PartSpec("progress", {"lines": 10, "title": None, "styles": ("a", {"b": (1, 2), "c": None})}),
    )
    tables = spec_dict(spec)
    assert tables == tomllib.loads(spec_text(spec))
    assert tables["training"]["observers"] == [
        {"name": "progress", "lines": 10, "styles": ["a", {"b": [1, 2]}]}
    ]


def test_changing_the_tables_of_a_spec_does_not_change_the_spec(catalog):
    spec = read_spec(catalog)
    tables = spec_dict(spec)
    tables["model"]["cell"]["hidden"] = 7
    tables.pop("training")
    assert spec == read_spec(catalog)


@pytest.mark.parametrize("failing", ["replace", "fsync", "chmod"])
def test_writing_leaves_the_old_content_or_the_new(catalog, tmp_path, monkeypatch, failing):
    path = tmp_path / "spec.toml"
    path.write_text("old")

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    spec = read_spec(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(CrvnnError, match=r"spec.toml cannot be written: .*No space left on device"):
            write_spec(spec, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_spec(spec, path)
    assert path.read_text() == spec_text(spec)
    assert list(tmp_path.iterdir()) == [path]


def test_writing_under_a_file_is_an_error(catalog, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CrvnnError, match="cannot be written"):
        write_spec(read_spec(catalog), tmp_path / "file" / "spec.toml")


def test_only_a_file_can_extend_another(catalog):
    with pytest.raises(SpecError, match=r"--set extends=other.toml: only a file can extend another"):
        read_spec(catalog, sets=["extends=other.toml"])


def test_a_preset_that_leaves_a_slot_empty_is_told_so(catalog):
    bare = attrs.evolve(
        catalog, presets={**catalog.presets, "bare": (Preset("bare", {"cell": "gated"}), None)}
    )
    with pytest.raises(SpecError, match="no encoder is named, neither here nor by the preset"):
        read_spec(bare, preset="bare")


def test_what_crvnn_fills_in_cannot_be_set(catalog):
    with pytest.raises(SpecError, match="cell 'gated' is always given the model's width"):
        read_spec(catalog, sets=["model.cell.width=3"])


def test_a_wrong_preset_does_not_hide_the_other_problems(catalog, spec_file):
    path = spec_file('preset = "papr"\n[model]\nwidth = "x"\n')
    with pytest.raises(SpecError) as caught:
        read_spec(catalog, path, sets=["oops"])
    text = str(caught.value)
    assert "my.toml:1 [preset]: no preset is called 'papr'. Did you mean 'paper'?" in text
    assert "my.toml:3 [model.width]: must be a whole number" in text
    assert "--set oops: write it as key=value" in text


def test_a_refused_value_is_shown_with_its_own_line(catalog, spec_file):
    path = spec_file(
        '[model.cell]\nname = "gated"\n\nhidden = -1\n[training.optimizer]\nlearning_rate = -1.0\n'
    )
    with pytest.raises(SpecError) as caught:
        assemble(read_spec(catalog, path), catalog)
    text = str(caught.value)
    assert "my.toml:4 [model.cell.hidden]: cell 'gated' (crvnn " in text
    assert "\n  4 | hidden = -1\n" in text
    assert "my.toml:5 [training.optimizer]: optimizer 'ranger'" in text


def test_the_name_of_a_component_is_set_before_its_parameters(catalog):
    sets = ["model.cell.dropout=0.25", "model.cell.name=gru"]
    assert read_spec(catalog, sets=sets).model.cell == PartSpec("gru", {"dropout": 0.25})


def test_a_missing_file_is_named_with_who_extends_it(catalog, spec_file):
    path = spec_file('seed = 1\nextends = "nope.toml"\n')
    with pytest.raises(SpecError, match=r"my.toml:2 \[extends\]: .*nope.toml: there is no such file"):
        read_spec(catalog, path)


def test_a_byte_order_mark_does_no_harm(catalog, tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes("\ufeffseed = 4\r\n".encode())
    assert read_spec(catalog, path).seed == 4


def test_keys_inside_a_text_of_several_lines_are_not_keys():
    lines = key_lines('a = """\nwidth = 1\n"""\nwidth = 2\n')
    assert lines[("width",)][0] == 4


def test_a_default_that_cannot_be_written_is_the_plug_ins_fault():
    class Mine:
        @hookimpl
        def crvnn_cells(self):
            return [Component("odd", partial(lambda width, device: None, device=torch.device("cpu")))]

    catalog = read_catalog(create_plugin_manager(Mine()))
    with pytest.raises(
        PluginError, match=r"cell 'odd' \(Mine\): the default of 'device'.* cannot be written in a spec"
    ):
        read_spec(catalog, parts={"cell": "odd"})


def test_an_unknown_slot_in_python_is_named(catalog):
    with pytest.raises(UnknownNameError, match=r"no slot of a spec is called 'cel'\. Did you mean 'cell'\?"):
        read_spec(catalog, parts={"cel": "gated"})


def test_the_kinds_of_inherited_parameters_are_known():
    class Mine:
        @hookimpl
        def crvnn_cells(self):
            return [Component("mine", type("Mine", (GatedCell,), {"__module__": "elsewhere"}))]

    catalog = read_catalog(create_plugin_manager(Mine()))
    with pytest.raises(
        SpecError, match=r"must be one of 'gelu', 'gelu-tanh', 'relu', not 'gleu'\. Did you mean 'gelu'"
    ):
        read_spec(catalog, parts={"cell": "mine"}, sets=["model.cell.activation=gleu"])


def test_a_wrong_preset_is_named_even_where_there_is_no_default_one():
    class Mine:
        @hookimpl
        def crvnn_presets(self):
            return [Preset("mine", {})]

    catalog = read_catalog(create_plugin_manager(Mine(), entry_points=False))
    with pytest.raises(SpecError, match=r"no preset is called 'mien'\. Did you mean 'mine'\?"):
        read_spec(catalog, preset="mien")


def test_quotes_in_a_comment_do_not_hide_the_keys_below():
    assert key_lines('a = 1  # """\nwidth = 2\n')[("width",)][0] == 2


def offering(**hooks):
    """A plug-in called Mine whose hooks return these records."""
    Mine = type("Mine", (), {})  # noqa: N806
    for hook, records in hooks.items():
        setattr(Mine, hook, hookimpl(lambda self, records=records: records))
    return Mine()


def plain():
    """Builds nothing, without parameters."""


def test_the_defaults_are_what_plug_ins_say():
    mine = offering(
        crvnn_tasks=[Component("sums", plain, default=True), Component("products", plain)],
        crvnn_embeddings=[Component("zeros", plain, default=True)],
        crvnn_encoders=[Component("mean", lambda width: None, default=True)],
        crvnn_cells=[Component("adding", lambda width: None, default=True)],
        crvnn_retrievers=[Component("matrix", plain)],
        crvnn_scorers=[Component("linear", plain)],
        crvnn_decisions=[Component("soft", plain)],
        crvnn_haltings=[Component("late", plain)],
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
    assert spec.training.optimizer == PartSpec("sgd", {"rate": 0.5})
    assert [part.name for part in spec.training.observers] == ["calm", "loud"]


def test_without_defaults_a_spec_is_told_what_it_must_name():
    mine = offering(crvnn_tasks=[Component("sums", plain)], crvnn_cells=[Component("adding", plain)])
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
    mine = offering(
        crvnn_presets=[Preset("vectors", {**catalog.preset("paper").model, "embedding": "glove"})]
    )
    both = read_catalog(create_plugin_manager(mine))
    sets = ["model.embedding.path=vectors.txt"]
    assert read_spec(both, preset="vectors", sets=sets).model.embedding.name == "glove"
    assert read_spec(both).model.embedding.name == "random"


def test_a_component_whose_parameters_cannot_be_read_is_named():
    catalog = read_catalog(create_plugin_manager(offering(crvnn_cells=[Component("odd", dict)])))
    with pytest.raises(
        PluginError, match=r"cell 'odd' \(Mine\): its parameters cannot be read: .*no signature"
    ):
        read_spec(catalog, parts={"cell": "odd"})
