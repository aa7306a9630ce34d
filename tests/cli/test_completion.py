"""Completion by the shell: the script, and the names it completes."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from calling import run
from crvnn_core.cli import main


def completions(*args, incomplete=""):
    """The candidates for a word after ``crvnn ARGS``."""
    found = ShellComplete(main, {}, "crvnn", "_CRVNN_COMPLETE").get_completions(list(args), incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_that_of_the_shell(shell):
    text = run("--completion", shell).stdout
    assert f"_CRVNN_COMPLETE={shell}_complete" in text


@pytest.mark.parametrize(
    ("args", "incomplete", "expected"),
    [
        ((), "ass", ["assemble"]),
        ((), "expl", ["explore"]),  # of a plug-in
        (("assemble", "--cell"), "g", ["gated", "gru"]),
        (("assemble", "--preset"), "sim", ["simplified-2023"]),
        (("check",), "ret", ["retriever"]),
        (("list", "retriever"), "log", ["log-space", "log-space-dense"]),
        (("list",), "cel", ["cells"]),
        (("train",), "listops-g", ["listops-guided"]),
        (("list", "spec"), "listops-g", ["listops-guided"]),
        (("predict",), "listops-g", ["listops-guided"]),
        (("explore",), "listops-g", ["listops-guided"]),
        (("report",), "listops-g", ["listops-guided"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_names_are_completed(args, incomplete, expected):
    assert completions(*args, incomplete=incomplete) == expected


def test_names_of_a_plug_in_file_are_completed(plugin_file):
    assert completions("--plugin", str(plugin_file), "assemble", "--cell", incomplete="for") == ["forgetful"]


def test_a_broken_plug_in_file_does_not_disturb_the_users_line(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module\n")
    assert completions("--plugin", str(path), "assemble", "--cell", incomplete="g") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_with_the_script(tmp_path):
    script = tmp_path / "completion.sh"
    script.write_text(run("--completion", "bash").stdout)
    command = tmp_path / "crvnn"
    command.write_text(f"#!{sys.executable}\nfrom crvnn_core.cli import main\nmain(prog_name='crvnn')\n")
    command.chmod(0o755)
    line = (
        f"source {script}; COMP_WORDS=(crvnn assemble --cell ls); COMP_CWORD=3; "
        "compopt() { :; }; _crvnn_completion crvnn; echo ${COMPREPLY[@]}"
    )
    result = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["lstm"]
