"""Strict checks of values against annotations: strings, numbers and booleans are never converted into each other."""

from __future__ import annotations

import contextlib
import inspect
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import cattrs

from crvnn_core.annotations import FilePath, PathText, Range, ranges
from crvnn_core.errors import nearest

#: The kinds of a spec's own fields, by their annotations.
FIELD_KINDS: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "FilePath": FilePath}


def _strictly(kind: type, *accepted: type) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"must be {describe(kind)}, not {value!r}")
        return kind(value)

    return structure


def describe(annotation: Any) -> str:
    """An annotation in plain words, for messages and documentation."""
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    if annotation in words:
        return words[annotation]
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(annotation))
    if annotation is inspect.Parameter.empty:
        return "anything"
    if _is_annotated(annotation):
        return _describe_annotated(annotation)
    if _is_list(annotation):
        return "a list"
    if _is_choice(annotation):
        return " or ".join(map(describe, get_args(annotation)))
    return getattr(annotation, "__name__", None) or str(annotation)


def _describe_annotated(annotation: Any) -> str:
    kind, *more = get_args(annotation)
    words = next((str(each) for each in more if isinstance(each, PathText)), describe(kind))
    return ", ".join([words, *(str(each) for each in more if isinstance(each, Range))])


def _is_annotated(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated


def _within_ranges(converter: cattrs.Converter, value: Any, annotation: Any) -> Any:
    found = converter.structure(value, get_args(annotation)[0])
    for each in ranges(annotation):
        each.check(value)
    return found


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


def _one_of(value: Any, annotation: Any) -> Any:
    choices = get_args(annotation)
    if value not in choices:
        guess = nearest(value, choices) if isinstance(value, str) else ""
        raise ValueError(f"must be {describe(annotation)}, not {value!r}.{guess}")
    return value


def _is_list(annotation: Any) -> bool:
    return annotation is list or get_origin(annotation) is list


def _list_of(converter: cattrs.Converter, value: Any, annotation: Any) -> Any:
    if not isinstance(value, (list, tuple)):  # a string is iterable too
        raise ValueError(f"must be a list, not {value!r}")
    (kind,) = get_args(annotation) or (Any,)
    return [value if kind is Any else converter.structure(value, kind) for value in value]


def _is_choice(annotation: Any) -> bool:
    """Whether an annotation is a union of several types; ``kind | None`` does not count."""
    return get_origin(annotation) in (Union, types.UnionType) and type(None) not in get_args(annotation)


def _first_that_fits(converter: cattrs.Converter, value: Any, annotation: Any) -> Any:
    for kind in get_args(annotation):
        with contextlib.suppress(ValueError):
            return converter.structure(value, kind)
    raise ValueError(f"must be {describe(annotation)}, not {value!r}")


def make_converter() -> cattrs.Converter:
    """A converter that raises on unknown keys and on values of another type."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _strictly(int, int))
    converter.register_structure_hook(float, _strictly(float, int, float))
    converter.register_structure_hook(bool, _strictly(bool, bool))
    converter.register_structure_hook(str, _strictly(str, str))
    converter.register_structure_hook_func(
        _is_annotated, lambda value, kind: _within_ranges(converter, value, kind)
    )
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook_func(
        _is_choice, lambda value, kind: _first_that_fits(converter, value, kind)
    )
    converter.register_structure_hook_func(_is_list, lambda value, kind: _list_of(converter, value, kind))
    return converter


CONVERTER = make_converter()


def check_value(value: Any, annotation: Any) -> Any:
    """The value converted to its annotation; ``ValueError`` says what it should have been."""
    if annotation is inspect.Parameter.empty or annotation is Any:
        return value
    try:
        return CONVERTER.structure(value, annotation)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"must be {describe(annotation)}, not {value!r}") from error
