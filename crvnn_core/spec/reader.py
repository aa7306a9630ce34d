"""Reading merged tables according to the schema and the signatures of components; every problem is collected."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Literal, get_args, get_origin

import attrs
import tomli_w
from attrs import define, field

from crvnn_core.annotations import check_value, holds_path
from crvnn_core.errors import FAILURES, Origin, Path_, PluginError, Problem, nearest, raised_at
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.slots import SLOT_BY_NAME, SLOT_BY_PATH, Slot
from crvnn_core.spec.layers import Layered
from crvnn_core.spec.schema import ModelSpec, PartSpec, RunSpec, TrainingSpec

_TABLES = {"model": ModelSpec, "training": TrainingSpec}


@define
class Reader:
    """Reads merged tables according to the schema and collects every problem."""

    catalog: Catalog
    layered: Layered
    problems: list[Problem] = field(factory=list)

    def complain(self, path: Path_, what: str, advice: str = "", at: Path_ | None = None) -> None:
        """Record a problem with ``path``; its line is that of ``at``, if given."""
        self.problems.append(self.layered.origin(at or path).problem(path, what, advice))

    def run_spec(self) -> RunSpec | None:
        """The spec; nothing if it has problems."""
        spec = self._table(RunSpec, self.layered.data, ())
        return spec if isinstance(spec, RunSpec) else None

    def _table(self, kind: type, data: Any, at: Path_) -> Any:
        if not isinstance(data, dict):
            self.complain(at, f"must be a table, not {data!r}")
            return None
        fields = attrs.fields_dict(kind)
        for key in data:
            if (*at, key) == ("extends",):
                self.complain((key,), "only a file can extend another; give that file as the SPEC")
            elif key not in fields:
                known = [*fields, *(["preset", "extends"] if not at else [])]
                table = f"[{'.'.join(at)}]" if at else "a spec"
                self.complain(
                    (*at, key), f"{table} has no '{key}'.{nearest(key, known)}", f"It has {', '.join(known)}."
                )
        values: dict[str, Any] = {}
        before = len(self.problems)
        for key, attribute in fields.items():
            path = (*at, key)
            if path in SLOT_BY_PATH:
                read = self._parts if SLOT_BY_PATH[path].many else self._part
                values[key] = read(SLOT_BY_PATH[path], data.get(key))
            elif key in _TABLES:
                values[key] = self._table(_TABLES[key], data.get(key, {}), path)
            elif key in data:
                values[key] = self._value(attribute.type, data[key], path)
        if len(self.problems) > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:  # values that contradict each other
            self.complain(at, str(error))
            return None

    def _value(self, kind: Any, value: Any, path: Path_) -> Any:
        if get_origin(kind) is Literal and isinstance(value, int) and value not in get_args(kind):
            value = str(value)  # --set training.precision=32
        try:
            value = check_value(value, kind)
            if value and holds_path(kind):
                value = _absolute(value, self.layered.origin(path))
        except ValueError as error:
            self.complain(path, str(error))
        return value

    def _parts(self, slot: Slot, data: Any) -> tuple[PartSpec, ...]:
        if not isinstance(data, (list, tuple)):
            self.complain(slot.path, f"must be a list of {slot.plural}, not {data!r}")
            return ()
        return tuple(part for item in data if (part := self._part(slot, item)) is not None)

    def _part(self, slot: Slot, data: Any, at: Path_ | None = None) -> PartSpec | None:
        """A named component with all its parameters checked and defaults filled in; nothing if there is a problem.

        :param at: its place, if that is not the slot's.
        """
        path = at or slot.path
        if isinstance(data, str):
            data = {"name": data}
        if data is None:
            below = "the preset" if path[0] == "model" else "a plug-in's default"
            installed = f"Installed: {', '.join(self.catalog.components[slot.name]) or 'none'}."
            self.complain(path, f"no {slot.name} is named, neither here nor by {below}", installed)
            return None
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            self.complain(
                path, f"must name one {slot.name}, as a string or as a table with a 'name'; got {data!r}"
            )
            return None
        params = {key: value for key, value in data.items() if key != "name"}
        name = data["name"]
        offer = self.catalog.components[slot.name].get(name)
        if offer is None:
            self.complain(path, *self.catalog.unknown(slot.name, name), at=(*path, "name"))
            return None
        return PartSpec(name, self._params(offer, params, path), path, tuple(params), self.layered.origin)

    def _params(self, offer: Offer, given: Mapping[str, Any], path: Path_) -> dict[str, Any]:
        slot, settings = SLOT_BY_NAME[offer.slot], settings_of(offer)
        title = f"{offer.slot} '{offer.component.name}'"
        for key in given:
            if key in slot.filled_in and key in offer.component.parameters():
                self.complain((*path, key), f"{title} is always given {slot.filled_in[key]}")
            elif key not in settings:
                has = f"It has {', '.join(settings)}." if settings else "It has none."
                self.complain((*path, key), f"{title} has no parameter '{key}'.{nearest(key, settings)}", has)
        params: dict[str, Any] = {}
        for key, parameter in settings.items():
            if key == slot.inner:
                params[key] = self._part(slot, given.get(key), (*path, key))
            elif key in given:
                params[key] = self._value(parameter.annotation, given[key], (*path, key))
            elif parameter.default is not inspect.Parameter.empty:
                params[key] = _writable(offer, key, parameter.default)
            else:
                self.complain(path, f"{title} needs a '{key}'")
        return params


def _writable(offer: Offer, key: str, default: Any) -> Any:
    """The default value, if TOML can express it."""
    if default is not None and not isinstance(default, PurePath):
        try:
            tomli_w.dumps({key: default})
        except TypeError as error:
            raise PluginError(
                f"{offer}: the default of '{key}', {default!r}, "
                "cannot be written in a spec; use numbers, strings, booleans, lists or tables of them"
            ) from error
    return default


def settings_of(offer: Offer) -> dict[str, inspect.Parameter]:
    """What a spec can set of a component; an error that names its package if that cannot be found out."""
    try:
        offer.component.load()
    except FAILURES as error:
        raise PluginError(f"{offer} could not be imported: {raised_at(error)}") from error
    try:
        return offer.component.settings(offer.slot)
    except FAILURES as error:
        raise PluginError(f"{offer}: its parameters cannot be read: {error}") from error


def _absolute(value: Any, origin: Origin) -> Any:
    """A path (or a list of paths) of a spec as an absolute one, so that it means the same in every directory.

    A relative path in a file starts from the directory of that file, one of --set from the working directory.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(_absolute(each, origin) for each in value)
    if origin.directory is None or not value or not isinstance(value, (str, PurePath)) or "://" in str(value):
        return value
    try:
        path = Path(value).expanduser()
    except RuntimeError as error:  # nobody is called so
        raise ValueError(f"{value!r}: {error}") from None
    start = origin.directory
    if origin.packaged and not (start / path).exists():
        start = Path()  # the package has no such file: it is the user's data
    return type(value)(os.path.abspath(start / path))
