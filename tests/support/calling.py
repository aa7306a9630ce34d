"""The command line, called from a test."""

from click.testing import CliRunner

from crvnn_core.cli import main


def run(*args, code=0, stdin=None):
    """Run the command line in this process, and make sure of its exit code."""
    result = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="crvnn", input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


#: A plug-in file.
CELLS = """
from crvnn_core import Cell, Component, hookimpl


class Forgetful(Cell):
    def leaf(self, inputs):
        return inputs

    def forward(self, left, right):
        return left


@hookimpl
def crvnn_cells():
    return [Component("forgetful", Forgetful, summary="keeps the left child only")]
"""

QUICK = ["--set", "model.width=8", "--set", "task.max_tokens=12"]
