"""Runs that were trained with ``--plugin FILE``: the file is kept, and nothing in it is run unasked."""

import contextlib
import json
import shutil

import pytest

from calling import CELLS, run
from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.errors import MissingPluginError
from crvnn_core.inference.trained import load
from small import SETTINGS, options

pytestmark = pytest.mark.usefixtures("here")

#: Leaves a file where it is imported.
MARKING = f'from pathlib import Path\n\nPath("imported").touch()\n{CELLS}'


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A directory with a run that needs a plug-in file, which is gone, and what was printed when it was trained."""
    path = tmp_path_factory.mktemp("trained")
    (path / "cells.py").write_text(MARKING)
    (path / "my.csv").write_text("text,label\na fine film,pos\ndull,neg\nfine,pos\na dull film,neg\n")
    sets = [*SETTINGS[1:], "model.cell=forgetful", "task.train=my.csv", "training.steps=2"]
    options = [part for text in sets for part in ("--set", text)]
    with contextlib.chdir(path):
        result = run("train", "--task", "from-file", *options, "--plugin", "cells.py", "--out", "runs/mine")
    (path / "cells.py").unlink()
    (path / "imported").unlink()
    return path, result


@pytest.fixture
def trained(once, here):
    """The run in the current directory, and what was printed when it was trained."""
    shutil.copytree(once[0], here, dirs_exist_ok=True)
    return once[1]


OPTION = "--plugin runs/mine/plugins/cells.py"


def test_the_file_is_kept_and_the_way_to_load_it_is_said(trained, here):
    assert (here / "runs" / "mine" / "plugins" / "cells.py").read_text() == MARKING
    assert "The run keeps cells.py, which it needs, in runs/mine/plugins." in trained.stdout
    assert f"Try it: crvnn {OPTION} predict runs/mine " in trained.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "runs/mine", "a dull film"),
        ("predict", "runs/mine", "a dull film", "--trees"),
        ("eval", "runs/mine"),
        ("trees", "runs/mine"),
        ("explore", "runs/mine", "--port", "0", "--no-open"),
        ("train", "--resume", "runs/mine"),
    ],
)
def test_without_it_the_exact_command_is_said_and_no_code_of_the_run_is_run(trained, here, command):
    lines = run(*command, code=2).stderr.splitlines()
    assert lines[0].startswith("crvnn: runs/mine was trained with a plug-in file that is not loaded.")
    assert any("no cell is called 'forgetful'" in line for line in lines)
    shown = " ".join(f"'{part}'" if " " in part else part for part in command)
    assert lines[1] == f"  crvnn {OPTION} {shown}"
    assert sum("--plugin" in line for line in lines) == 1
    assert not (here / "imported").exists()


def test_a_report_without_it_shows_the_rest_and_says_what_to_add(trained, here):
    result = run("report", "runs/mine", "--out", "report.html")
    assert OPTION in result.stderr
    assert not (here / "imported").exists()
    assert (here / "report.html").exists()


def test_with_it_the_run_is_used(trained, here):
    result = run(*OPTION.split(), "predict", "runs/mine", "a dull film", "--json")
    assert json.loads(result.stdout)[0]["tokens"] == [["a", "dull", "film"]]
    assert (here / "imported").exists()


def test_a_mistake_in_a_setting_is_no_missing_file_once_it_is_loaded(trained):
    result = run(*OPTION.split(), "eval", "runs/mine", "--set", "task.labell=x", code=2)
    assert "labell" in result.stderr
    assert "plug-in file" not in result.stderr


def test_a_saved_copy_of_the_model_keeps_the_file_too(trained, here):
    catalog = read_catalog(create_plugin_manager(files=[here / "runs/mine/plugins/cells.py"]))
    load("runs/mine", catalog).save("copy")
    assert (here / "copy" / "plugins" / "cells.py").read_text() == MARKING
    with pytest.raises(MissingPluginError, match=r"--plugin copy/plugins/cells\.py"):
        load("copy")


def test_files_of_one_name_are_kept_beside_each_other(here):
    for folder in ("one", "two"):
        (here / folder).mkdir()
        text = MARKING.replace("forgetful", f"forgetful-{folder}")
        (here / folder / "cells.py").write_text(text)
    args = options("training.steps=1")
    files = ("--plugin", "one/cells.py", "--plugin", "two/cells.py")
    run("train", *args, *files, "--out", "mine")
    kept = {path.name: path.read_text() for path in (here / "mine" / "plugins").iterdir()}
    assert sorted(kept) == ["cells.py", "cells_2.py", "small.py"]
    assert "forgetful-two" in kept["cells_2.py"]


def test_a_run_without_plug_in_files_has_no_directory_for_them(letters_run, here):
    assert not (letters_run / "plugins").exists()
    shutil.copytree(letters_run, here / "a")
    result = run("predict", "a", "b", code=2)
    assert "no task is called 'letters'" in result.stderr
    assert (
        "trained with parts that were defined in memory, by the program that trained it (small)"
        in result.stderr
    )
    assert "--plugin a" not in result.stderr
