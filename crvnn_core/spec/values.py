"""Values checked against the annotations of parameters and fields; nothing is converted but integers to floats.

TOML has seven kinds of values, which are told apart strictly: ``"3"`` is no integer, ``true`` is no number.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from crvnn_core.annotations import PathText, Range, choices_error, ranges

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def describe(annotation: Any) -> str:
    """An annotation in plain words, for messages and documentation."""
    kinds = get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if annotation is inspect.Parameter.empty:
        return "anything"
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(repr, kinds))
    if get_origin(annotation) is Annotated:
        words = next((str(each) for each in kinds if isinstance(each, PathText)), describe(kinds[0]))
        return ", ".join([words, *map(str, ranges(annotation))])
    if _is_list(annotation):
        return "a list"
    if _is_union(annotation) and type(None) not in kinds:
        return " or ".join(map(describe, kinds))
    return getattr(annotation, "__name__", None) or str(annotation)


def check_value(value: Any, annotation: Any) -> Any:
    """The value, as an annotation has it; ``ValueError`` says what it should have been."""
    kinds = get_args(annotation)
    wrong = ValueError(f"must be {describe(annotation)}, not {value!r}")
    if annotation in (inspect.Parameter.empty, Any):
        return value
    if get_origin(annotation) is Annotated:
        found = check_value(value, kinds[0])
        for each in kinds[1:]:
            if isinstance(each, Range):
                each.check(value)
        return found
    if get_origin(annotation) is Literal:
        if value not in kinds:
            raise choices_error(value, kinds)
        return value
    if _is_union(annotation):
        others = [kind for kind in kinds if kind is not type(None)]
        if value is None and len(others) < len(kinds):
            return None
        if len(others) == 1:
            return check_value(value, others[0])
        for kind in others:
            with contextlib.suppress(ValueError):
                return check_value(value, kind)
        raise wrong
    if _is_list(annotation):
        if not isinstance(value, (list, tuple)):  # a string is iterable too
            raise wrong
        return [check_value(each, *kinds) if kinds else each for each in value]
    if get_origin(annotation) in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a table, not {value!r}")
        return {check_value(key, kinds[0]): check_value(each, kinds[1]) for key, each in value.items()}
    if not isinstance(annotation, type):
        return value
    if issubclass(annotation, PurePath):
        return annotation(check_value(value if isinstance(value, str) else str(value), str))
    if isinstance(value, bool) and annotation in (int, float):
        raise wrong
    if annotation is float and isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            raise wrong from None
    if not isinstance(value, annotation):
        raise wrong
    return value


def _is_list(annotation: Any) -> bool:
    return annotation is list or get_origin(annotation) is list


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)
