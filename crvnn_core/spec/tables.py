"""Specs, and changes to them, as dictionaries of Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from crvnn_core.errors import Origin, SpecError
from crvnn_core.spec.layers import Layer, read_toml
from crvnn_core.spec.paths import NamedFiles, find_spec


def table_layers(data: Mapping[str, Any], named: NamedFiles) -> list[Layer]:
    """The layers of a dictionary, and of the spec that it extends.

    :param named: spec files that can be extended by name.
    """
    origin = Origin("spec", directory=Path())
    tables = read_tables(data, origin)
    below: list[Layer] = []
    if "extends" in tables:
        other = tables.pop("extends")
        if not isinstance(other, str) or not other:
            raise SpecError([origin.problem(("extends",), "must be the path or the name of another spec")])
        asked = f"{origin.where(('extends',))}: "
        below = read_toml(find_spec(other, named, Path(), asked), named, asked=asked)
    return [*below, (tables, {}, origin)]


def read_tables(data: Mapping[str, Any], origin: Origin) -> dict[str, Any]:
    """A dictionary as the tables that a TOML file would give: ``{"model.width": 32}`` is ``{"model": {"width": 32}}``.

    Paths become texts, and scalars of numpy become numbers.

    :param origin: of the dictionary, for messages.
    """
    found: dict[str, Any] = {}
    for key, value in data.items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise SpecError([origin.problem((), f"keys are names, as in 'model.width', not {key!r}")])
        *tables, last = key.split(".")
        into = found
        for name in tables:
            into = _table(into, name)
        if isinstance(value, Mapping):
            merge_tables(_table(into, last), read_tables(value, origin))
        elif isinstance(into.get(last), dict):  # a component, whose settings came first
            into[last] = {"name": value, **into[last]}
        else:
            into[last] = plain_value(value)
    return found


def plain_value(value: Any) -> Any:
    """A value as TOML knows it, where there is such a value: of a path its text, of a numpy scalar the number."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if type(value).__module__ == "numpy":
        return value.tolist()
    return value


def _table(into: dict[str, Any], name: str) -> dict[str, Any]:
    """The table of that name, made if there is none; the text in its place is the name of a component."""
    present = into.get(name)
    if not isinstance(present, dict):
        into[name] = {} if present is None else {"name": present}
    found: dict[str, Any] = into[name]
    return found


def merge_tables(into: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Merge tables into others, key by key."""
    for key, value in data.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge_tables(into[key], value)
        else:
            into[key] = value
