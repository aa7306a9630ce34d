"""The layers of a spec, from the preset at the bottom to the command line on top, and the origin of each value."""

from __future__ import annotations

import copy
import re
import tomllib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from attrs import define, evolve, field

from crvnn_core.documents import parse_toml
from crvnn_core.errors import FAILURES, CrvnnWarning, Origin, Path_, Problem, SpecError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.component import Preset
from crvnn_core.host.slots import SLOT_BY_NAME, slot_at
from crvnn_core.runs.directory import was_resolved

#: The paths of spec files by the names that plug-ins offer them under.
NamedFiles = Mapping[str, Path]


def find_spec(given: Path | str, named: NamedFiles, beside: Path = Path(), asked: str = "") -> Path:
    """The spec file at a path, or the one that a plug-in offers under this name.

    :param beside: the directory that a relative path starts from.
    :param asked: where it was asked for, for messages.
    """
    path, name = beside / given, str(given)
    try:
        found = path.is_file()
    except OSError as error:  # such as a path that is too long
        raise SpecError([Origin(f"{asked}{path!s:.200}").problem((), str(error.strerror))]) from None
    if found:
        if name in named:
            message = (
                f"{path} is a file, and '{name}' is a spec of an installed package too; the file is used"
            )
            warnings.warn(CrvnnWarning(message), stacklevel=3)
        return path
    if name in named:
        return named[name]
    if not path.exists():
        raise SpecError([Origin(f"{asked}{path}").problem((), *_absent(path, name, named))])
    return path


def _absent(path: Path, name: str, named: NamedFiles) -> tuple[str, str]:
    """What to say of a spec that does not exist, and the specs that do."""
    if PurePath(name).suffix or PurePath(name).name != name:
        if path.stem in named:
            return (
                "there is no such file",
                f"A spec that comes with a package is used by its name: {path.stem}",
            )
        found = sorted(each.name for each in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        return "there is no such file", f"{path.parent} has {', '.join(found)}." if found else ""
    guess = nearest(name, named)
    return (
        f"there is no such file, and no spec has this name.{guess}",
        "'crvnn list specs' lists those that have one.",
    )


@define
class Layered:
    """A spec as plain tables. Where a value was written is looked up when a message needs it."""

    data: dict[str, Any] = field(factory=dict)
    #: The origins in the layer that set a value, and an origin for the rest of that layer.
    set_by: dict[Path_, tuple[Mapping[Path_, Origin], Origin]] = field(factory=dict)

    def copy(self) -> Layered:
        """A copy to merge more into, which leaves this one as it is."""
        return Layered(copy.deepcopy(self.data), dict(self.set_by))

    def origin(self, path: Path_) -> Origin:
        """Where ``path`` was written, or the nearest table around it."""
        around = next((place for place in _around(path) if place in self.set_by), None)
        return Origin("spec") if around is None else origin_at(around, *self.set_by[around])

    def merge(self, data: Mapping[str, Any], origins: Mapping[Path_, Origin], default: Origin) -> None:
        """Merge another layer over this one; naming another component drops the parameters of the old one."""
        self._merge(self.data, data, (), (origins, default))

    def _merge(
        self,
        into: dict[str, Any],
        data: Mapping[str, Any],
        at: Path_,
        set_by: tuple[Mapping[Path_, Origin], Origin],
    ) -> None:
        for key, value in data.items():
            path = (*at, key)
            self.set_by[path] = set_by
            if isinstance(value, (str, Mapping)) and names_component(path):
                value = {"name": value} if isinstance(value, str) else value
                present = into.get(key)
                if "name" in value and (
                    not isinstance(present, dict) or present.get("name") != value["name"]
                ):
                    into[key] = {}
            if isinstance(value, Mapping):
                if not isinstance(into.get(key), dict):
                    into[key] = {}
                self._merge(into[key], value, path, set_by)
            else:
                into[key] = value


def _around(path: Path_) -> Iterator[Path_]:
    """A path, and those of the tables around it."""
    return (path[:end] for end in range(len(path), -1, -1))


def origin_at(path: Path_, origins: Mapping[Path_, Origin], default: Origin) -> Origin:
    """Where ``path``, or the nearest table around it, was written."""
    return next((origins[place] for place in _around(path) if place in origins), default)


#: Tables, the origins of what stands in them, and an origin for the rest.
Layer = tuple[dict[str, Any], Mapping[Path_, Origin], Origin]


class KeyOrigins(Mapping[Path_, Origin]):
    """The origin of each table and key in a TOML source, found when one of them is asked for."""

    def __init__(self, source: str, place: Origin) -> None:
        self.source, self.place = source, place

    @cached_property
    def found(self) -> dict[Path_, Origin]:
        """All of them."""
        lines = key_lines(self.source).items()
        return {key: evolve(self.place, line=line, text=text) for key, (line, text) in lines}

    def __getitem__(self, path: Path_) -> Origin:
        return self.found[path]

    def __iter__(self) -> Iterator[Path_]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)


def read_toml(
    path: Path, named: NamedFiles | None = None, seen: tuple[Path, ...] = (), asked: str = ""
) -> list[Layer]:
    """The layers of a file and of those that it extends, the base first.

    :param named: spec files that can be extended by name.
    :param asked: names the file that extends it.
    """
    named = named or {}
    place = Origin(f"{asked}{path}")
    if path.resolve() in seen:
        raise SpecError(
            [place.problem((), "this file extends itself, by way of " + ", ".join(map(str, seen)))]
        )
    source = ""
    try:
        source = path.read_text(encoding="utf-8-sig")
        data = parse_toml(source)
    except IsADirectoryError:
        raise SpecError([place.problem((), "this is a directory; a spec is a TOML file")]) from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError([_unreadable(place, source, error)]) from None
    except (OSError, ValueError) as error:
        raise SpecError([place.problem((), f"the file cannot be read: {error}")]) from None
    place = Origin(
        str(path),
        directory=None if was_resolved(path) else path.parent,
        packaged=path.resolve() in {each.resolve() for each in named.values()},
    )
    origins = KeyOrigins(source, place)
    return [*_base(data, origins, place, named, (*seen, path.resolve())), (data, origins, place)]


def _base(
    tables: dict[str, Any],
    origins: Mapping[Path_, Origin],
    place: Origin,
    named: NamedFiles,
    seen: tuple[Path, ...] = (),
) -> list[Layer]:
    """The layers of the spec that these tables extend, whose name is taken out of them."""
    if "extends" not in tables:
        return []
    other = tables.pop("extends")
    here = origins.get(("extends",), place)
    if not isinstance(other, str) or not other:
        raise SpecError([here.problem(("extends",), "must be the path or the name of another spec")])
    if place.directory is None:  # else a run from elsewhere could have any file of this machine read
        raise SpecError([here.problem(("extends",), "a resolved spec is complete and extends nothing")])
    asked = f"{here.where(('extends',))}: "
    return read_toml(find_spec(other, named, place.directory, asked), named, seen, asked)


def _unreadable(place: Origin, source: str, error: tomllib.TOMLDecodeError) -> Problem:
    match = re.search(r"line (\d+)", str(error))
    lines = source.splitlines()
    number = int(match[1]) if match else len(lines)
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    return Origin(place.label, number, text).problem((), f"this is not TOML: {error}")


_HEADER = re.compile(r"\s*+\[\[?([^\[\]]++)\]\]?\s*+(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)


def key_lines(source: str) -> dict[Path_, tuple[int, str]]:
    """The line number and text of each table and key in a TOML source, for messages."""
    found: dict[Path_, tuple[int, str]] = {}
    table: Path_ = ()
    quoted = False  # inside a multi-line string
    stage = 0  # the number of the last [[stages]]
    for number, line in enumerate(source.splitlines(), 1):
        code = line.partition("#")[0]
        begun, quoted = quoted, quoted ^ ((code.count('"""') + code.count("'''")) % 2 == 1)
        if begun:
            continue
        if header := _HEADER.match(line):
            table = _split(header[1].strip())
            stage += table == ("stages",)
            if table[0] == "stages" and stage:
                found.setdefault(("stages",), (number, line.strip()))
                table = ("stages", str(stage), *table[1:])
            found.setdefault(table, (number, line.strip()))
        elif key := _KEY.match(line):
            found.setdefault((*table, *_split(key[1])), (number, line.strip()))
    return found


def _split(dotted: str) -> Path_:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def override(text: str) -> tuple[dict[str, Any], Origin]:
    """``key.path=value`` of the command line as a layer. The value is TOML, or else taken as a string."""
    origin = Origin(f"--set {text}", directory=Path(), every_stage=True)
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise SpecError(
            [origin.problem((), "write it as key=value, for example --set model.cell.hidden=256")]
        )
    try:
        parsed = parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    except ValueError as error:
        raise SpecError(
            [Origin(f"--set {text:.60}").problem((), f"the value cannot be read: {error}")]
        ) from None
    return nested(_split(key), parsed), origin


def nested(path: Path_, value: Any) -> dict[str, Any]:
    """Nested tables that hold only ``value``, at ``path``."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def overrides(texts: Sequence[str]) -> tuple[list[tuple[dict[str, Any], Origin]], list[Problem]]:
    """The layers of all overrides, those that name components first, and the problems of the unreadable ones.

    Of these an encoder comes before the one inside it, since naming an encoder drops the settings of another.
    """
    layers: list[tuple[dict[str, Any], Origin]] = []
    problems: list[Problem] = []
    for text in sorted(texts, key=_override_order):
        try:
            layers.append(override(text))
        except SpecError as error:
            problems += error.problems
    return layers, problems


def _override_order(text: str) -> tuple[bool, int]:
    path = _split(text.partition("=")[0])
    path = path[2:] if path[0] == "stages" else path
    path = path[:-1] if path[-1:] == ("name",) and names_component(path[:-1]) else path
    return (False, len(path)) if names_component(path) else (True, 0)


def names_component(path: Path_) -> bool:
    """Whether a spec names a single component at ``path``."""
    slot = slot_at(path)
    return slot is not None and not slot.many


def fill_in_inner(catalog: Catalog, layered: Layered, preset: Preset | None) -> None:
    """Give an encoder that asks for another one the preset's, where the layers name none; settings of it are kept."""
    slot = SLOT_BY_NAME["encoder"]
    model = layered.data.get("model")
    table = model.get(slot.name) if isinstance(model, dict) else None
    own = preset.model.get(slot.name) if preset is not None else None
    if preset is None or own is None or not isinstance(table, dict):
        return
    own = {"name": own} if isinstance(own, str) else own
    path: Path_ = slot.path
    while isinstance(table, dict) and slot.inner in (encoder_parameters(catalog, table.get("name")) or ()):
        path = (*path, slot.inner)
        given = table.get(slot.inner, {})
        if isinstance(given, Mapping) and "name" not in given:
            table[slot.inner] = given = {**own, **given}
            layered.set_by.setdefault(path, ({}, Origin(f"preset '{preset.name}'")))
        table = given


def encoder_parameters(catalog: Catalog, name: object) -> Collection[str] | None:
    """The parameters of an encoder; ``None`` if there is no such encoder, or it cannot be imported."""
    offer = catalog.components["encoder"].get(name) if isinstance(name, str) else None
    try:
        return offer.component.parameters() if offer is not None else None
    except FAILURES:  # reported when its settings are read
        return None


def table_layers(data: Mapping[str, Any], named: NamedFiles) -> list[Layer]:
    """The layers of a dictionary, and of the spec that it extends.

    :param named: spec files that can be extended by name.
    """
    origin = Origin("spec", directory=Path())
    tables = read_tables(data, origin)
    return [*_base(tables, {}, origin, named), (tables, {}, origin)]


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
