"""Resolving layers to a complete spec, checked against the installed components; all problems in one error."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import attrs
import tomli_w

from crvnn_core.annotations import holds_path
from crvnn_core.errors import (
    FAILURES,
    Origin,
    Path_,
    PluginError,
    Problem,
    SpecError,
    UnknownNameError,
    nearest,
    raised_at,
)
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.slots import SLOT_BY_NAME, SLOT_BY_PATH, Slot
from crvnn_core.spec.layers import Layer, Layered, overrides, read_toml
from crvnn_core.spec.paths import absolute, find_spec
from crvnn_core.spec.schema import ModelSpec, PartSpec, RunSpec, Stage, TrainingSpec
from crvnn_core.spec.stages import overridden_options, separate_stages, value_paths
from crvnn_core.spec.tables import read_tables, table_layers
from crvnn_core.spec.values import FIELD_KINDS, check_value

_TABLES = {"model": ModelSpec, "training": TrainingSpec}


def read_spec(
    catalog: Catalog,
    path: Path | str | Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    parts: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
) -> RunSpec:
    """Read a spec (or none, for the defaults) and resolve it.

    :param path: a spec file, the name of a spec that a plug-in offers, or the tables of a spec as a dictionary.
    :param preset: takes the place of the preset that the file names.
    :param parts: component names by slot; on top of the file.
    :param changes: tables, as a dictionary; on top of these.
    :param sets: ``key.path=value`` texts; on top of everything.
    """
    layers = spec_layers(catalog, path)
    extra, problems = overrides(sets)
    paths = {slot.name: slot.path for slot in SLOT_BY_NAME.values() if not slot.many}
    for slot, name in (parts or {}).items():
        if slot not in paths:
            raise UnknownNameError(f"no slot of a spec is called '{slot}'.{nearest(slot, paths)}")
        layers.append((_nested(paths[slot], name), {}, Origin(f"--{slot} {name}")))
    if changes:
        origin = Origin("changes", directory=Path())
        layers.append((read_tables(changes, origin), {}, origin))
    layers += [(data, {}, origin) for data, origin in extra]
    return resolve(catalog, layers, preset, problems)


def spec_layers(catalog: Catalog, path: Path | str | Mapping[str, Any] | None) -> list[Layer]:
    """The layers of a spec and of those that it extends, the base first; see ``read_spec``."""
    named = {name: Path(spec.path) for name, (spec, _) in catalog.specs.items()}
    if isinstance(path, Mapping):
        return table_layers(path, named)
    return read_toml(find_spec(path, named), named) if path is not None else []


def _nested(path: Path_, value: Any) -> dict[str, Any]:
    """Nested tables that hold only ``value``, at ``path``."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def resolve(
    catalog: Catalog, layers: Sequence[Layer], preset: str | None = None, problems: Sequence[Problem] = ()
) -> RunSpec:
    """Merge the layers over the defaults and the preset, check every value, and fill in every parameter.

    :param problems: found while reading; they are reported with the rest.
    """
    layers, stages, faults = separate_stages(layers)
    layered = Layered()
    reader = _Reader(catalog, layered, [*problems, *faults])
    chosen, place = _preset(layers, preset) or (catalog.default_preset, Origin("default"))
    if chosen is not None and (not isinstance(chosen, str) or chosen not in catalog.presets):
        what = f"no preset is called {chosen!r}.{nearest(str(chosen), catalog.presets)}"
        reader.problems.append(place.problem(("preset",), what, f"Installed: {', '.join(catalog.presets)}."))
        chosen = catalog.default_preset
        if chosen is None:  # every part of the model would be reported as missing
            raise SpecError(reader.problems)
    for slot in SLOT_BY_NAME.values():
        names = catalog.defaults(slot.name)
        if slot.many or names:
            layered.lay(_nested(slot.path, names if slot.many else names[0]), {}, Origin("defaults"))
    if chosen is not None:
        layered.lay({"model": catalog.preset(chosen).model}, {}, Origin(f"preset '{chosen}'"))
    for data, origins, origin in layers:
        # The search space of 'crvnn sweep' may stand in the file; as an option it would be lost without a word.
        others = ("preset",) if origin.is_option else ("preset", "sweep")
        layered.lay({key: value for key, value in data.items() if key not in others}, origins, origin)
    spec = reader.run_spec()
    found: list[Stage] = []
    if stages and not faults:
        laid = [_lay_stage(layered, tables) for tables in stages]
        reader.problems += overridden_options(layers, layered, laid)
        for tables, stage in zip(stages, laid, strict=True):
            found += _stage(catalog, tables, stage, reader.problems)
    if reader.problems or spec is None:
        raise SpecError(reader.problems)
    return attrs.evolve(spec, stages=tuple(found))


def _lay_stage(base: Layered, tables: Sequence[Layer]) -> Layered:
    layered = base.copy()
    for data, origins, origin in tables:
        layered.lay({key: value for key, value in data.items() if key != "name"}, origins, origin)
    return layered


def _stage(
    catalog: Catalog, tables: Sequence[Layer], layered: Layered, problems: list[Problem]
) -> Iterator[Stage]:
    """The stage, if it can be read; problems that the spec or another stage has as well are recorded once."""
    reader = _Reader(catalog, layered, ())
    spec = reader.run_spec()
    problems += [problem for problem in reader.problems if problem not in problems]
    if spec is not None:
        name = next((data["name"] for data, _, _ in reversed(tables) if "name" in data), "")
        yield Stage(
            name=name,
            task=spec.task,
            model=spec.model,
            training=spec.training,
            given=frozenset(path for data, _, _ in tables for path in value_paths(data)),
            place=tables[0][2],
        )


def _preset(layers: Sequence[Layer], asked: str | None) -> tuple[Any, Origin] | None:
    """The preset that is asked for, or else the one that the topmost layer names, and where."""
    if asked is not None:
        return asked, Origin(f"--preset {asked}")
    for data, origins, origin in reversed(layers):
        if "preset" in data:
            return data["preset"], origins.get(("preset",), origin)
    return None


class _Reader:
    """Reads merged tables according to the schema and collects every problem."""

    def __init__(self, catalog: Catalog, layered: Layered, problems: Sequence[Problem]) -> None:
        self.catalog, self.layered = catalog, layered
        self.problems = list(problems)

    def complain(self, path: Path_, what: str, advice: str = "", at: Path_ | None = None) -> None:
        """Record a problem with ``path``; its line is that of ``at``, if given."""
        self.problems.append(self.layered.origin(at or path).problem(path, what, advice))

    def run_spec(self) -> RunSpec | None:
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
                values[key] = self._value(attribute, data[key], path)
        if len(self.problems) > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:  # values that contradict each other
            self.complain(at, str(error))
            return None

    def _value(self, attribute: attrs.Attribute[Any], value: Any, path: Path_) -> Any:
        kind = FIELD_KINDS[str(attribute.type)]
        if kind is str and isinstance(value, int):  # --set training.precision=32
            value = str(value)
        try:
            value = check_value(value, kind)
            if attribute.validator is not None:
                attribute.validator(None, attribute, value)
            if holds_path(kind):
                value = absolute(value, self.layered.origin(path))
        except ValueError as error:
            self.complain(path, str(error))
        return value

    def _parts(self, slot: Slot, data: Any) -> tuple[PartSpec, ...]:
        if not isinstance(data, (list, tuple)):
            self.complain(slot.path, f"must be a list of {slot.plural}, not {data!r}")
            return ()
        return tuple(part for item in data if (part := self._part(slot, item)) is not None)

    def _part(self, slot: Slot, data: Any) -> PartSpec | None:
        """A named component with all its parameters checked and defaults filled in; nothing if there is a problem."""
        path = slot.path
        if isinstance(data, str):
            data = {"name": data}
        if data is None:
            below = "the preset" if path[0] == "model" else "a plug-in's default"
            installed = f"Installed: {', '.join(self.catalog.components[slot.name]) or 'none'}."
            self.complain(path, f"no {slot.name} is named, neither here nor by {below}", installed)
            return None
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            self.complain(
                path, f"must name one {slot.name}, as a text or as a table with a 'name'; got {data!r}"
            )
            return None
        params = {key: value for key, value in data.items() if key != "name"}
        name = data["name"]
        offer = self.catalog.components[slot.name].get(name)
        if offer is None:
            self.complain(path, *self.catalog.unknown(slot.name, name), at=(*path, "name"))
            return None
        places = {key: self.layered.origin((*path, key)) for key in params}
        return PartSpec(
            name, self._params(offer, params, path), path, {"": self.layered.origin(path), **places}
        )

    def _params(self, offer: Offer, given: Mapping[str, Any], path: Path_) -> dict[str, Any]:
        settings, filled_in = settings_of(offer), SLOT_BY_NAME[offer.slot].filled_in
        title = f"{offer.slot} '{offer.component.name}'"
        for key in given:
            if key in filled_in and key in offer.component.parameters():
                self.complain((*path, key), f"{title} is always given {filled_in[key]}")
            elif key not in settings:
                has = f"It has {', '.join(settings)}." if settings else "It has none."
                self.complain((*path, key), f"{title} has no parameter '{key}'.{nearest(key, settings)}", has)
        params = {}
        for key, parameter in settings.items():
            if key in given:
                try:
                    params[key] = check_value(given[key], parameter.annotation)
                    if holds_path(parameter.annotation):
                        params[key] = absolute(params[key], self.layered.origin((*path, key)))
                except ValueError as error:
                    self.complain((*path, key), str(error))
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
                "cannot be written in a spec; use numbers, texts, truth values, lists or tables of them"
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
