"""A resolved spec as plain tables, as TOML text, and as a file that can be read again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import attrs
import tomli_w

from crvnn_core.errors import Path_
from crvnn_core.files import write_atomically
from crvnn_core.runs.directory import flatten, sealed
from crvnn_core.spec.schema import PartSpec, RunSpec


def spec_dict(spec: RunSpec) -> dict[str, Any]:
    """A spec as the nested tables that reading its TOML would give. Parameters that are ``None`` are left out."""
    fields = [field.name for field in attrs.fields(RunSpec) if field.name != "stages"]
    stages = {"stages": stage_changes(spec)} if spec.stages else {}
    return {name: _plain(getattr(spec, name)) for name in fields} | stages


def stage_changes(spec: RunSpec) -> list[dict[str, Any]]:
    """What each stage sets of its own, as tables: of another component all parameters."""
    found = []
    for stage in spec.stages:
        tables = {"task": spec.task, "model": spec.model, "training": spec.training}
        changes = {
            key: changed
            for key, table in tables.items()
            if (changed := _changes(_plain(table), _plain(getattr(stage, key)), stage.given, (key,)))
        }
        found.append({"name": stage.name, **changes} if stage.name else changes)
    return found


def stage_summary(spec: RunSpec, number: int) -> str:
    """What stage ``number`` (from 0) changes of the spec, in one line."""
    changes = {key: value for key, value in stage_changes(spec)[number].items() if key != "name"}
    shown = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in flatten(changes).items()
    }
    return ", ".join(f"{key}={value}" for key, value in shown.items()) or "the spec as it is"


def _changes(
    base: Mapping[str, Any], stage: Mapping[str, Any], given: Collection[Path_], at: Path_
) -> dict[str, Any]:
    """What differs in a table of a stage, and what the stage was ``given`` although it is the same."""
    if base.get("name") != stage.get("name"):
        return dict(stage)
    found: dict[str, Any] = {}
    for key, value in stage.items():
        before = base.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := _changes(before, value, given, (*at, key)):
                found[key] = inner
        elif key not in base or value != before or (*at, key) in given:
            found[key] = value
    return found


def spec_text(spec: RunSpec, notes: Sequence[str] = ()) -> str:
    """A spec as TOML, with notes as comments on top."""
    comments = "".join(f"# {note}\n" for note in notes)
    return sealed(comments + tomli_w.dumps(spec_dict(spec)))


def write_spec(spec: RunSpec, path: Path, notes: Sequence[str] = ()) -> None:
    """Write a spec to a file, atomically."""
    write_atomically(path, spec_text(spec, notes))


def _plain(value: Any) -> Any:
    if isinstance(value, PartSpec):
        return {"name": value.name, **_plain(value.params)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if attrs.has(type(value)):
        return {a.name: _plain(getattr(value, a.name)) for a in attrs.fields(type(value))}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
