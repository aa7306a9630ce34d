"""Specs by name, and the paths in a spec: relative to the file that they are written in."""

import tomllib
from pathlib import Path

import pytest

from crvnn_core import Component, CrvnnWarning, FilePath, NamedSpec, create_plugin_manager, read_catalog
from crvnn_core.annotations import holds_path
from crvnn_core.spec import read_spec, spec_text, write_spec
from spec_problems import the_problem_of
from stub_plugins import plugin

FROM_FILE = '[task]\nname = "from-file"\ntrain = "rows.csv"\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A directory with a spec and its data in a folder of its own, and an empty working directory beside it."""
    for name in ("mine", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "my.toml").write_text(FROM_FILE)
    (tmp_path / "mine" / "rows.csv").write_text("text,label\na,b\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_a_path_of_a_file_that_is_extended_is_relative_to_that_file(catalog, home):
    Path("above.toml").write_text('extends = "../mine/my.toml"\ntask = {dev = "dev.csv"}\n')
    found = read_spec(catalog, "above.toml").task.params
    assert found["train"] == str(home / "mine" / "rows.csv")
    assert found["dev"] == str(home / "elsewhere" / "dev.csv")


def test_a_path_of_an_option_is_relative_to_the_working_directory(catalog, home):
    sets = ["task.dev=../mine/dev.csv", "training.start=runs/one"]
    spec = read_spec(catalog, home / "mine" / "my.toml", sets=sets)
    assert spec.task.params["dev"] == str(home / "mine" / "dev.csv")
    assert spec.training.start == str(home / "elsewhere" / "runs" / "one")


def test_a_path_of_a_stage_is_relative_to_the_spec(catalog, home):
    path = home / "mine" / "stages.toml"
    path.write_text(f'{FROM_FILE}[[stages]]\ntask = {{train = "more.csv"}}\n')
    (stage,) = read_spec(catalog, path).stages
    assert stage.task.params["train"] == str(home / "mine" / "more.csv")


def test_absolute_paths_addresses_and_the_home_directory_stay_what_they_are(catalog, home, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    for given, found in (
        ("/data/x", "/data/x"),
        ("https://x.y/z", "https://x.y/z"),
        ("~/x", "/home/someone/x"),
    ):
        spec = read_spec(catalog, sets=[f"training.start={given}"])
        assert spec.training.start == found


def test_a_path_in_a_spec_is_never_taken_from_the_working_directory(catalog, home):
    (home / "mine" / "rows.csv").rename("rows.csv")
    spec = read_spec(catalog, home / "mine" / "my.toml")
    assert spec.task.params["train"] == str(home / "mine" / "rows.csv")
    assert spec.task.params["dev"] == ""  # none


def test_a_written_spec_means_the_same_in_every_directory(catalog, home, monkeypatch):
    spec = read_spec(catalog, home / "mine" / "my.toml")
    write_spec(spec, home / "runs" / "spec.toml")
    (home / "runs").rename(home / "moved")
    monkeypatch.chdir(home)
    assert read_spec(catalog, "moved/spec.toml") == spec


def test_relative_paths_of_a_spec_that_crvnn_wrote_stay_relative_to_the_working_directory(catalog, home):
    text = spec_text(read_spec(catalog, home / "mine" / "my.toml"))
    (home / "mine" / "old.toml").write_text(text.replace(str(home / "mine" / "rows.csv"), "rows.csv"))
    assert read_spec(catalog, home / "mine" / "old.toml").task.params["train"] == "rows.csv"


def test_parameters_annotated_as_paths_or_lists_of_them_are_paths(home):
    def build(path: Path, many: list[FilePath] | str = "", plain: str = "x"):
        """A task."""

    assert [holds_path(each) for each in (Path, FilePath, list[FilePath] | str, str, list[str])] == [
        True,
        True,
        True,
        False,
        False,
    ]
    catalog = read_catalog(create_plugin_manager(plugin(crvnn_tasks=[Component("own", build)])))
    (home / "mine" / "own.toml").write_text('[task]\nname="own"\npath="a"\nmany=["b"]\nplain="c"\n')
    spec = read_spec(catalog, home / "mine" / "own.toml")
    here = home / "mine"
    assert spec.task.params == {"path": here / "a", "many": [str(here / "b")], "plain": "c"}
    assert tomllib.loads(spec_text(spec))["task"]["path"] == str(here / "a")


@pytest.fixture
def offering(home):
    """A catalog with the spec 'offered', which lies in a package together with its rows."""
    record = NamedSpec("offered", str(home / "mine" / "my.toml"), summary="rows")
    return read_catalog(create_plugin_manager(plugin(crvnn_specs=[record])))


def test_a_spec_is_read_by_name_and_finds_the_files_of_its_package(offering, home):
    assert read_spec(offering, "offered").task.params["train"] == str(home / "mine" / "rows.csv")


def test_a_named_spec_finds_the_users_data_in_the_working_directory(offering, home):
    for name in ("rows.csv", "nothing"):
        (home / "mine" / "rows.csv").unlink(missing_ok=True)
        Path(name).write_text("")
        assert read_spec(offering, "offered").task.params["train"] == str(home / "elsewhere" / "rows.csv")
        Path(name).unlink()


def test_a_spec_extends_another_by_name(offering, home):
    Path("above.toml").write_text('extends = "offered"\nseed = 3\n')
    spec = read_spec(offering, "above.toml")
    assert (spec.seed, spec.task.params["train"]) == (3, str(home / "mine" / "rows.csv"))


def test_a_file_takes_precedence_over_a_name_and_that_is_said(offering):
    Path("offered").write_text("seed = 7\n")
    with pytest.warns(
        CrvnnWarning, match="'offered' is a spec of an installed package too; the file is used"
    ):
        assert read_spec(offering, "offered").seed == 7


def test_a_directory_does_not_hide_a_named_spec(offering):
    Path("offered").mkdir()
    assert read_spec(offering, "offered").task.name == "from-file"


def test_an_unknown_name_is_an_error_that_knows_the_nearest(offering):
    problem = the_problem_of(offering, "oferred")
    assert "no spec has this name. Did you mean 'offered'?" in problem
    assert "'crvnn list specs' lists" in problem


def test_the_file_of_a_named_spec_in_another_place_is_an_error_that_gives_the_name(offering):
    assert "is used by its name: offered" in the_problem_of(offering, "tasks/specs/offered.toml")
