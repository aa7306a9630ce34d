"""Requests of the page, validated: each fault is an ``InputError`` that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

from attrs import field, frozen
from attrs.validators import deep_iterable, instance_of

from crvnn_core import InputError

Scalar = bool | int | float | str


@frozen
class Query:
    """A text, and the model, parts and settings to run it with. Equal queries have equal answers."""

    model: str = field(validator=instance_of(str))
    texts: tuple[str, ...] = field(validator=deep_iterable(instance_of(str)))
    #: Slot and component.
    parts: tuple[tuple[str, str], ...] = field(
        default=(), validator=deep_iterable(deep_iterable(instance_of(str)))
    )
    #: Slot, name and value.
    settings: tuple[tuple[str, str, Scalar], ...] = field(
        default=(), validator=deep_iterable(deep_iterable(instance_of((bool, int, float, str))))
    )
    hard: bool = field(default=False, validator=instance_of(bool))

    @classmethod
    def read(cls, data: dict[str, Any]) -> Query:
        """From the page's JSON."""
        try:
            settings = [
                (slot, key, value)
                for slot, values in sorted(data.get("settings", {}).items())
                for key, value in sorted(values.items())
            ]
            parts = tuple(sorted(data.get("parts", {}).items()))
            return cls(data["model"], tuple(data["texts"]), parts, tuple(settings), data.get("hard", False))
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(f"this is not a question as the page sends it: {error.args[0]}") from None

    @property
    def sets(self) -> list[str]:
        """The settings as ``--set`` takes them: ``model.decision.end=0.3`` and the like."""
        return [
            f"model.{slot}.{key}={json.dumps(value, ensure_ascii=False)}"
            for slot, key, value in self.settings
        ]


def read_json(body: bytes) -> dict[str, Any]:
    """The object in the body of a request."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("this is not JSON as the page sends it") from None
    if not isinstance(data, dict):
        raise InputError("a request is a JSON object")
    return data
