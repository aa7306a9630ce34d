"""A resolved spec as plain tables, as TOML text, and as a file that can be read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import tomli_w

from crvnn_core.files import write_atomically
from crvnn_core.spec.schema import PartSpec, RunSpec

_HEADER, _FOOTER = "# resolved by crvnn", "# end\n"


def was_resolved(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, not a user's own."""
    try:
        return path.read_bytes().startswith(_HEADER.encode())
    except OSError:
        return False


def spec_dict(spec: RunSpec) -> dict[str, Any]:
    """A spec as the nested tables that reading its TOML would give. Parameters that are ``None`` are left out."""
    return {field.name: _plain(getattr(spec, field.name)) for field in attrs.fields(RunSpec)}


def spec_text(spec: RunSpec, notes: Sequence[str] = ()) -> str:
    """A spec as TOML, with notes as comments on top."""
    comments = "".join(f"# {note}\n" for note in notes)
    return f"{_HEADER}\n{comments}{tomli_w.dumps(spec_dict(spec))}{_FOOTER}"


def is_whole(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, complete to its last line."""
    return was_resolved(path) and path.read_bytes().endswith(_FOOTER.encode())


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
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
