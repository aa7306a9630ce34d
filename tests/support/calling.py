"""The command line, called from a test."""

import os
import subprocess
import sys

from click.testing import CliRunner

from crvnn_core.cli import main


def run(*args, code=0, stdin=None):
    """Run the command line in this process, and make sure of its exit code."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="crvnn", input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


QUICK = ["--set", "model.width=8", "--set", "task.max_tokens=12"]


def crvnn(*args, cwd, **variables):
    """Run the command line in a process of its own."""
    command = [
        sys.executable,
        "-c",
        "from crvnn_core.cli import main; main(prog_name='crvnn')",
        *map(str, args),
    ]
    env = {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
