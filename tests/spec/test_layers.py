"""Layers of a spec: files that extend others, overrides, and the lines that problems are reported at."""

import pytest

from crvnn_core import SpecError
from crvnn_core.spec import PartSpec, read_spec
from crvnn_core.spec.layers import key_lines
from spec_problems import problems_of, the_problem_of


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


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("extends = 3\n", ":1 [extends]: must be the path or the name of another spec"),
        ("seed = 1\n[model\nwidth = 3\n", ":2: this is not TOML"),
        ("seed = 1\n[model\nwidth = 3\n", "\n  2 | [model"),
        ('seed = 1\n[model]\ncell = """gated\n', ":3: this is not TOML"),
        ("# d\xe9j\xe0 vu\nseed = 1\n", ": the file cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_with_its_line(catalog, tmp_path, text, what):
    (tmp_path / "my.toml").write_bytes(text.encode("latin-1"))
    problem = the_problem_of(catalog, tmp_path / "my.toml")
    assert problem.startswith(f"{tmp_path / 'my.toml'}:")
    assert what in problem


def test_naming_another_component_drops_the_old_parameters(catalog, spec_file):
    path = spec_file('[model.cell]\nname = "gated"\nhidden = 48\ndropout = 0.5\n')
    plain = read_spec(catalog, sets=["model.cell=lstm"]).model.cell
    assert read_spec(catalog, path, parts={"cell": "lstm"}).model.cell == plain
    assert plain.name == "lstm"
    assert plain.params["dropout"] == 0.0
    assert "hidden" not in plain.params


def test_naming_the_same_component_again_keeps_its_parameters(catalog, spec_file):
    path = spec_file('[model.cell]\nname = "gated"\nhidden = 48\n')
    assert read_spec(catalog, path, parts={"cell": "gated"}).model.cell.params["hidden"] == 48
    spec = read_spec(catalog, path, sets=["model.cell.dropout=0.25"])
    assert (spec.model.cell.params["hidden"], spec.model.cell.params["dropout"]) == (48, 0.25)


def test_parameters_without_a_name_go_to_the_component_below(catalog, spec_file):
    cell = read_spec(catalog, spec_file("[model.cell]\nhidden = 48\n")).model.cell
    assert (cell.name, cell.params["hidden"]) == ("gated", 48)


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


@pytest.mark.parametrize("text", ["model.width", "=3", "model..width=3", ".=1"])
def test_a_set_without_key_or_value_is_an_error_that_shows_how(catalog, text):
    problem = the_problem_of(catalog, sets=[text])
    assert problem.startswith(f"--set {text}: write it as key=value, for example --set model.cell.hidden=256")


def test_every_unreadable_set_is_reported_at_once(catalog):
    assert len(problems_of(catalog, sets=["a", "b", "seed=1"])) == 2


def test_a_directory_is_an_error(catalog, tmp_path):
    assert the_problem_of(catalog, tmp_path) == f"{tmp_path}: this is a directory; a spec is a TOML file"


def test_a_missing_file_is_an_error_that_lists_the_specs_beside_it(catalog, spec_file, tmp_path):
    spec_file("", "one.toml")
    spec_file("", "two.toml")
    spec_file("", "notes.txt")
    problem = the_problem_of(catalog, tmp_path / "tow.toml")
    assert problem == f"{tmp_path / 'tow.toml'}: there is no such file\n  {tmp_path} has one.toml, two.toml."
    assert the_problem_of(catalog, tmp_path / "no" / "way.toml").endswith("there is no such file")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'a = 1\n# b = 2\n[t]  # a table\nc.d = 3\n"e" = 4\n\n[[u.v]]\nw = {x = 1}\n',
            {"a": 1, "t": 3, "t.c.d": 4, "t.e": 5, "u.v": 7, "u.v.w": 8},
        ),
        ('a = """\nwidth = 1\n"""\nwidth = 2\n', {"a": 1, "width": 4}),
        ('a = 1  # """\nwidth = 2\n', {"a": 1, "width": 2}),
    ],
    ids=["tables", "a text of several lines", "quotes in a comment"],
)
def test_keys_are_found_on_their_lines(text, expected):
    assert {".".join(path): number for path, (number, _) in key_lines(text).items()} == expected


def test_only_a_file_can_extend_another(catalog):
    with pytest.raises(SpecError, match=r"--set extends=other.toml: only a file can extend another"):
        read_spec(catalog, sets=["extends=other.toml"])


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
