"""``crvnn bench`` called in this process."""

import json

from click.testing import CliRunner

from crvnn_core.cli import main

#: Options for a quick measurement.
SMALL = ("--width", "8", "--threads", "1")


def run(*args, code=0):
    """The finished call; it must have ended with this code."""
    result = CliRunner().invoke(main, ["bench", *map(str, args)], prog_name="crvnn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def answer(*args):
    """The results of a call as plain data."""
    return json.loads(run(*args, "--json").stdout)
