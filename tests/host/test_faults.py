"""Exceptions in the code of plug-ins: which component, plug-in and line is named, and what is left as it is."""

import pytest

from calling import run
from crvnn_parts.cells.gated import GatedCell
from small import PLUGIN, SETTINGS

FILE = f"""
import sys
sys.path.insert(0, {str(PLUGIN.parent)!r})
import click
from crvnn_core import Component, hookimpl
from crvnn_parts.cells.gated import GatedCell
from small import Letters

class Failing(GatedCell):
    def forward(self, left, right):
        return helper(left, right[:1, :1].expand(7, 7))

def helper(left, right):
    return left @ right

class Exiting(Letters):
    def epoch(self, seed, number):
        sys.exit(0)

class Other(GatedCell):
    pass

class Special(Failing):
    pass

@click.command("leaving")
def leaving():
    sys.exit(3)

@hookimpl
def crvnn_cells():
    return [Component("failing", Failing), Component("other", Other), Component("special", Special)]

@hookimpl
def crvnn_tasks():
    return [Component("exiting", Exiting)]

@hookimpl
def crvnn_commands():
    return [leaving]
"""
LINE = FILE.splitlines().index("    return left @ right") + 1
EXIT = FILE.splitlines().index("        sys.exit(0)") + 1


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A plug-in file with a cell that raises, a task that exits, and a command that exits."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def options(file, *sets):
    return ["--plugin", PLUGIN, "--plugin", file, *(o for s in (*SETTINGS, *sets) for o in ("--set", s))]


def test_an_exception_in_a_forward_pass_names_component_plug_in_and_line(file):
    result = run("train", *options(file, "model.cell=failing"), "--out", "a", code=2)
    assert (
        f"crvnn: cell 'failing' of plug-in '{file}' ({file}) raised RuntimeError: mat1 and" in result.stderr
    )
    assert f"({file}:{LINE})\n  {LINE} | return left @ right\n" in result.stderr
    assert "CRVNN_TRACEBACK=1" in result.stderr


def test_of_components_that_inherit_from_each_other_the_one_in_use_is_named(file):
    result = run("train", *options(file, "model.cell=special"), "--out", "a", code=2)
    assert f"crvnn: cell 'special' of plug-in '{file}'" in result.stderr


def test_a_task_that_exits_does_not_end_training_in_silence(file):
    result = run("train", *options(file, "task=exiting"), "--out", "a", code=2)
    assert (
        f"crvnn: task 'exiting' of plug-in '{file}' ({file}) tried to end the program (exit code 0)"
        in result.stderr
    )
    assert f"{EXIT} | sys.exit(0)" in result.stderr


def test_a_bug_of_crvnns_own_keeps_its_traceback(file, monkeypatch):
    monkeypatch.setattr(GatedCell, "forward", lambda self, left, right: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("train", *options(file), "--out", "a")


def test_a_command_of_a_plug_in_may_exit(file):
    run("--plugin", file, "leaving", code=3)
