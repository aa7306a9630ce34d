"""Plug-ins made on the spot, for tests of the host."""

import types

from crvnn_core import Component, hookimpl

CELL = Component("tiny", dict, summary="tiny")


def plugin(name="mine", **hooks):
    """A module with hooks, each given as what it returns or as a function."""
    module = types.ModuleType(name)
    for hook, returned in hooks.items():
        setattr(
            module, hook, hookimpl(returned if callable(returned) else lambda returned=returned: returned)
        )
    return module
