"""``crvnn bench`` called in this process."""

import json
from functools import partial

import calling

#: Options for a quick measurement.
SMALL = ("--width", "8", "--threads", "1")

run = partial(calling.run, "bench")


def answer(*args):
    """The results of a call as plain data."""
    return json.loads(run(*args, "--json").stdout)
