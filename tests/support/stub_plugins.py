"""Plug-ins made on the spot, and catalogs with them."""

import types

from crvnn_core import Component, create_plugin_manager, hookimpl, read_catalog
from crvnn_core.host.slots import SLOT_BY_NAME

CELL = Component("tiny", dict, summary="tiny")


def plugin(name="mine", **hooks):
    """A module with hooks, each given as what it returns or as a function."""
    module = types.ModuleType(name)
    for hook, returned in hooks.items():
        setattr(
            module, hook, hookimpl(returned if callable(returned) else lambda returned=returned: returned)
        )
    return module


def with_components(*plugins, **offers):
    """A catalog of what is installed, of more plug-ins, and by slot of components of a plug-in called Mine."""
    mine = plugin("Mine", **{SLOT_BY_NAME[slot].hook: offered for slot, offered in offers.items()})
    return read_catalog(create_plugin_manager(*plugins, mine))
