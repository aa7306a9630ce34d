"""The file that holds the spec of a run: complete, and unchanged since crvnn wrote it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEADER = "# resolved by crvnn"
_FOOTER = re.compile(
    rb"# end(?: ([0-9a-f]{8}))?\n\Z"
)  # with a checksum of all before; earlier versions wrote none


def sealed(text: str) -> str:
    """The text of a spec between the first and the last line by which the functions below know it."""
    text = f"{_HEADER}\n{text}"
    return f"{text}# end {zlib.crc32(text.encode()):08x}\n"


def was_resolved(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, not a user's own."""
    try:
        return path.read_bytes().startswith(_HEADER.encode())
    except OSError:
        return False


def is_whole(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, complete to its last line."""
    return was_resolved(path) and _FOOTER.search(path.read_bytes()) is not None


def was_changed(path: Path) -> bool:
    """Whether a file is a spec that crvnn wrote, and was changed since: the checksum in its last line does not fit."""
    content = path.read_bytes()
    footer = _FOOTER.search(content)
    return footer is not None and footer[1] not in (None, b"%08x" % zlib.crc32(content[: footer.start()]))


def flatten(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as one with dotted keys: the name of a component at its own key, stages by number from 1."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if key == "stages" and isinstance(value, list):
            value = {str(number): stage for number, stage in enumerate(value, 1)}
        if not isinstance(value, Mapping):
            found[key] = value
            continue
        below = flatten(value)
        if "name" in below:
            found[key] = below.pop("name")
        found |= {f"{key}.{inner}": each for inner, each in below.items()}
    return found
