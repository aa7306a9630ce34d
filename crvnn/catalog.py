"""What is installed: components by slot and name, presets and trained models."""

from __future__ import annotations

from functools import cache

from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.slots import SLOTS, find_slot


@cache
def installed() -> Catalog:
    """Everything that the installed plug-ins offer; read once, when it is first needed."""
    return read_catalog(create_plugin_manager())


def components(slot: str = "", *, catalog: Catalog | None = None) -> dict[str, str]:
    """The names of a slot's components, or of all slots, and what they are: ``components("cell")``.

    :param slot: ``cell``, ``retriever`` and so on; without one, every name is preceded by its slot's: ``cell gru``.
    :param catalog: by default what is installed.
    """
    catalog = catalog or installed()
    if slot:
        offers = catalog.components[find_slot(slot).name]
        return {name: offer.component.summary for name, offer in offers.items()}
    return {
        f"{each} {name}": summary
        for each in SLOTS
        for name, summary in components(each, catalog=catalog).items()
    }
