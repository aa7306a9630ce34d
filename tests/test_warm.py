"""The command that starts at once does what the real one does."""

import os
import subprocess

import pytest


@pytest.fixture
def bash(commands, tmp_path):
    path = os.pathsep.join([commands, os.environ["PATH"]])

    def run(command, **environment):
        variables = os.environ | {"PATH": path} | environment
        return subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100
        )

    return run


def test_it_has_the_callers_directory_streams_and_exit_code(bash, tmp_path):
    (tmp_path / "a.toml").write_text("[model]\ncell = 'nope'\n")
    done = bash("crvnn assemble a.toml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "a.toml:2 [model.cell]: no cell is called 'nope'" in done.stderr
    assert bash("crvnn list cells | grep -c ' gru '").stdout == "1\n"


def test_it_has_the_callers_environment(bash):
    assert "crvnn" in bash("crvnn", _CRVNN_COMPLETE="bash_source").stdout
