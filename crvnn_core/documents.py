"""TOML and JSON from files of any origin: whatever cannot be read is a ``ValueError`` that says what is wrong.

The parsers of the standard library raise ``RecursionError`` for deep nesting, take numbers of any size, and read NaN,
which JSON does not have.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

#: How many tables or lists may stand in one another; those of a spec are four deep.
DEEPEST = 100
#: The most characters of a TOML file; a long spec has some thousands.
LONGEST_TOML = 1_000_000

_TOO_DEEP = f"it is nested too deeply, more than {DEEPEST} tables or lists in one another"
_LARGEST = 2**1000  # what a float can express
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document."""
    if len(text) > LONGEST_TOML:
        raise ValueError(f"the text is longer than {LONGEST_TOML:,} characters")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:  # such as a number of thousands of digits, or the 30th of February
        raise ValueError(_in_words(error)) from None
    for value in _walk(found):
        if isinstance(value, int) and abs(value) >= _LARGEST:  # hexadecimal ones can be
            raise ValueError("a number has hundreds of digits")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; ``OSError`` or ``ValueError`` if it cannot be read."""
    return parse_toml(read_toml_text(path))


def read_toml_text(path: Path) -> str:
    """The text of a TOML file, of which no more is read than one may have."""
    with path.open(encoding="utf-8-sig") as file:
        return file.read(LONGEST_TOML + 1)


def parse_json(text: str, *, strict: bool = False) -> Any:
    """The value of a JSON document.

    :param strict: refuse what JSON or UTF-8 does not have: NaN, infinity, and halves of surrogate pairs.
    """
    try:
        found = json.loads(text, parse_constant=_refused if strict else None)
        for value in _walk(found):
            if strict and isinstance(value, str) and _SURROGATE.search(value):
                raise ValueError("a text has half of a surrogate pair, which is no character")
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise ValueError(_in_words(error)) from None
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _walk(document: Any) -> Iterator[Any]:
    """Every key and value; ``ValueError`` if they are nested too deeply."""
    level = [document]
    for _ in range(DEEPEST + 1):
        yield from level
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _in_words(error: ValueError) -> str:
    return "a number has thousands of digits" if "integer string conversion" in str(error) else str(error)
