"""Specs from dictionaries, files and names, what they describe, and the components that they choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from crvnn_core.errors import InputError
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.slots import SLOTS, find_slot
from crvnn_core.spec import RunSpec, spec_dict
from crvnn_core.spec import read_spec as read_spec_of
from crvnn_core.spec.assembly import Assembly
from crvnn_core.spec.assembly import assemble as assemble_spec

#: A spec: its tables as a dictionary, the path of its file, its name, or the spec itself.
Spec = Mapping[str, Any] | Path | str | RunSpec


def read_spec(
    spec: Spec | None = None, changes: Mapping[str, Any] | None = None, *, catalog: Catalog | None = None
) -> RunSpec:
    """A complete spec, checked: every setting, defaults included; one error for all problems.

    :param spec: a dictionary such as ``{"model": {"width": 32, "cell": "gru"}}`` (or ``{"model.width": 32}``), the
        path of a file, or the name of a spec; without one, the defaults.
    :param changes: to it, as a dictionary.
    :param catalog: the components to choose from; by default those of all installed plug-ins.
    """
    catalog = catalog or installed()
    if isinstance(spec, RunSpec):
        if not changes:
            return spec
        spec = spec_dict(spec)
    if not isinstance(spec, Mapping | Path | str | None):
        raise InputError(f"a spec is a dictionary, the path of a file or a name, not {spec!r}")
    return read_spec_of(catalog, spec, changes=changes)


def assemble(spec: Spec | None = None, *, catalog: Catalog | None = None) -> Assembly:
    """The task and the model that a spec describes, with initial weights: ``assemble({...}).model.encoder``.

    :param catalog: the components to choose from; by default those of all installed plug-ins.
    """
    catalog = catalog or installed()
    return assemble_spec(read_spec(spec, catalog=catalog), catalog)


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
