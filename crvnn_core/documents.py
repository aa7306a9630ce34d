"""TOML and JSON from files: whatever cannot be read is a ``ValueError`` that says what is wrong."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document."""
    with _nested_too_deeply():
        return tomllib.loads(text)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; ``OSError`` or ``ValueError`` if it cannot be read."""
    return parse_toml(path.read_text(encoding="utf-8-sig"))


def parse_json(text: str, *, strict: bool = False) -> Any:
    """The value of a JSON document.

    :param strict: refuse what JSON or UTF-8 does not have: NaN, infinity, and halves of surrogate pairs.
    """
    with _nested_too_deeply():
        found = json.loads(text, parse_constant=_refused if strict else None)
        if strict:
            json.dumps(found, ensure_ascii=False).encode()
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


@contextlib.contextmanager
def _nested_too_deeply() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
