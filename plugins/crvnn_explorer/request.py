"""Requests of the page, validated: each fault is an ``InputError`` that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from attrs import field, frozen

from crvnn_core import InputError

Scalar = bool | int | float | str


@frozen
class Query:
    """A text, and the model, parts and settings to run it with. Equal queries have equal answers."""

    model: str
    texts: tuple[str, ...]
    parts: tuple[tuple[str, str], ...] = ()
    #: ``model.decision.end=0.3`` and the like.
    sets: tuple[str, ...] = ()
    hard: bool = False
    #: Slot, name and value of what is in ``sets``; as numbers, 1, 1.0 and true would be equal.
    settings: tuple[tuple[str, str, Scalar], ...] = field(default=(), eq=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Query:
        """From the page's JSON."""
        unknown = set(data) - {"model", "texts", "parts", "settings", "hard", "sequence", "step"}
        if unknown:
            raise InputError(f"nothing is called {', '.join(sorted(map(repr, unknown)))} here")
        texts = data.get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InputError('"texts" must be a list of texts')
        model, hard = data.get("model"), data.get("hard", False)
        if not isinstance(model, str) or not isinstance(hard, bool):
            raise InputError('"model" must be a name, and "hard" true or false')
        parts = _table(data, "parts")
        if not all(isinstance(name, str) for name in parts.values()):
            raise InputError('"parts" must give the name of a component for each slot')
        settings = [
            (slot, key, _scalar(f"{slot}.{key}", value))
            for slot, values in sorted(_table(data, "settings").items())
            for key, value in sorted(_table({slot: values}, slot).items())
        ]
        sets = [
            f"model.{slot}.{key}={json.dumps(value, ensure_ascii=False)}" for slot, key, value in settings
        ]
        return cls(model, tuple(texts), tuple(sorted(parts.items())), tuple(sets), hard, tuple(settings))


def whole_number(data: Mapping[str, Any], name: str) -> int:
    """A whole number of the page's JSON."""
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f'"{name}" must be a whole number')
    return value


def read_json(body: bytes) -> dict[str, Any]:
    """The object in the body of a request."""
    try:
        data = json.loads(body, parse_constant=_refuse)
        json.dumps(data, ensure_ascii=False).encode()  # lone surrogates are not text
    except (ValueError, RecursionError):
        raise InputError("this is not JSON as the page sends it") from None
    if not isinstance(data, dict):
        raise InputError("a request is a JSON object")
    return data


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f'"{name}" must be a table')
    return value


def _scalar(name: str, value: Any) -> Scalar:
    if not isinstance(value, (bool, int, float, str)):
        raise InputError(f"{name} must be a number, a text, or true or false")
    return value
