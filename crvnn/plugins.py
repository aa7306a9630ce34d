"""The components to choose from: those of the installed plug-ins, and of plug-ins that are given in Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.slots import SLOTS, find_slot


@cache
def installed() -> Catalog:
    """Everything that the installed plug-ins offer; read once, when it is first needed."""
    return read_catalog(create_plugin_manager())


def catalog(*plugins: object, files: Iterable[Path | str] = ()) -> Catalog:
    """Everything that the installed plug-ins offer, and plug-ins of your own.

    Pass it as ``catalog`` to the functions of ``crvnn`` that build or load something.

    :param plugins: modules, or other objects, with hooks.
    :param files: Python files with hooks, as for ``crvnn --plugin``.
    """
    return read_catalog(create_plugin_manager(*plugins, files=[Path(file) for file in files]))


def components(slot: str = "", *, catalog: Catalog | None = None) -> dict[str, str]:
    """The names of a slot's components, or of all slots, and what they are: ``components("cell")``.

    :param slot: ``cell``, ``retriever`` and so on; without one, every name is preceded by its slot's: ``cell gru``.
    :param catalog: by default what is installed.
    """
    known = catalog or installed()
    if slot:
        offers = known.components[find_slot(slot).name]
        return {name: offer.component.summary for name, offer in offers.items()}
    return {
        f"{each} {name}": summary
        for each in SLOTS
        for name, summary in components(each, catalog=known).items()
    }
