"""Specs from dictionaries, files and names, and what they describe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crvnn.plugins import installed
from crvnn_core.errors import InputError
from crvnn_core.host.catalog import Catalog
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
