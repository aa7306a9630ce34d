"""The command that starts at once does what the real one does."""

import os
import subprocess

import pytest

from warm import warm_command


@pytest.fixture(scope="module")
def bash():
    with warm_command() as directory:
        path = os.pathsep.join([directory, os.environ["PATH"]])

        def run(command, cwd, **environment):
            return subprocess.run(
                ["bash", "-c", command],
                cwd=cwd,
                env=os.environ | {"PATH": path} | environment,
                capture_output=True,
                text=True,
                timeout=100,
            )

        yield run


def test_it_has_the_callers_directory_streams_and_exit_code(bash, tmp_path):
    (tmp_path / "a.toml").write_text("[model]\ncell = 'nope'\n")
    done = bash("crvnn assemble a.toml", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "a.toml:2 [model.cell]: no cell is called 'nope'" in done.stderr
    assert bash("crvnn list cells | grep -c ' gru '", tmp_path).stdout == "1\n"


def test_it_has_the_callers_environment(bash, tmp_path):
    assert "crvnn" in bash("crvnn", tmp_path, _CRVNN_COMPLETE="bash_source").stdout
