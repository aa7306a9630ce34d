"""Input that is meant to do harm, and what a command must answer to it."""

from calling import run

DIGITS = "1" * 5000
DEEP = "[" * 3000 + "]" * 3000


def refused(*args):
    """The message of a command that fails without a traceback."""
    result = run(*args, code=2)
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("crvnn: ") or result.stderr.startswith("Usage: ")
    return result.stderr
