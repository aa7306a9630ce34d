"""Annotations of parameters: paths, ranges of numbers and choices (``Literal``), in words and as checks of values.

A plug-in writes them in the signature of its component. Specs are checked against them; ``crvnn list`` shows them::

    @check_ranges
    def __init__(self, path: FilePath, dropout: Probability = 0.1, depth: Annotated[int, Range(ge=2)] = 8) -> None:
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from attrs import frozen

from crvnn_core.errors import nearest

P = ParamSpec("P")
R = TypeVar("R")


@frozen
class PathText:
    """Marks a string as the path of a file or directory."""


@frozen(kw_only=True)
class Range:
    """The numbers that a value may be, as in ``Annotated[float, Range(ge=0, lt=1)]``; never NaN or infinity.

    :param gt: it is greater than this; ``ge``, ``lt`` and ``le`` likewise.
    :param odd: it is an odd number.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    odd: bool = False

    def __contains__(self, value: float) -> bool:
        return (
            -math.inf < value < math.inf
            and (self.gt is None or value > self.gt)
            and (self.ge is None or value >= self.ge)
            and (self.lt is None or value < self.lt)
            and (self.le is None or value <= self.le)
            and (not self.odd or value % 2 == 1)
        )

    def __str__(self) -> str:
        ends = {"above": self.gt, "at least": self.ge, "below": self.lt, "at most": self.le}
        texts = [f"{words} {end}" for words, end in ends.items() if end is not None]
        return " and ".join(texts + ["odd"] * self.odd) or "finite"

    def check(self, value: float, name: str = "") -> None:
        """Raise ``ValueError`` for a number out of range; ``name`` is that of the parameter, for the message."""
        if value not in self:
            limits = str(self) if -math.inf < value < math.inf else "finite"
            raise ValueError(f"{name} must be {limits}, not {value}".strip())


#: The path of a file or directory. A relative one in a spec is taken from the directory of the spec file.
FilePath = Annotated[str, PathText()]
#: A number from 0 to 1, such as a dropout.
Probability = Annotated[float, Range(ge=0, le=1)]
#: A number above 0, such as a temperature.
Positive = Annotated[float, Range(gt=0)]
#: A number of at least 0, such as the weight of a loss.
Weight = Annotated[float, Range(ge=0)]
#: The initial value of a gate's bias: beyond these the gate would not learn.
Bias = Annotated[float, Range(ge=-20, le=20)]
#: An integer of at least 1.
Count = Annotated[int, Range(ge=1)]
#: An integer of at least 0, which is often none, or no limit.
CountOrZero = Annotated[int, Range(ge=0)]


def bare(annotation: Any) -> Any:
    """The type without what is said of it: ``float`` of ``Probability``."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def holds_path(annotation: Any) -> bool:
    """Whether values of an annotation are paths: ``FilePath`` or ``pathlib.Path``, or a list or choice of them."""
    if isinstance(annotation, type) and issubclass(annotation, PurePath):
        return True
    return any(isinstance(each, PathText) or holds_path(each) for each in get_args(annotation))


def ranges(annotation: Any) -> list[Range]:
    """The ranges that an annotation gives the values themselves, not those inside lists."""
    return [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Range)]


_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def described(annotation: Any) -> str:
    """An annotation in plain words, for messages and documentation."""
    kinds, origin = get_args(annotation), get_origin(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if annotation is inspect.Parameter.empty:
        return "anything"
    if origin is Literal:
        return "one of " + ", ".join(map(repr, kinds))
    if origin is Annotated:
        is_path = any(isinstance(each, PathText) for each in kinds)
        return ", ".join(["a path" if is_path else described(kinds[0]), *map(str, ranges(annotation))])
    if list in (annotation, origin):
        return "a list"
    if origin in (Union, UnionType) and type(None) not in kinds:
        return " or ".join(map(described, kinds))
    return getattr(annotation, "__name__", None) or str(annotation)


def check_value(value: Any, annotation: Any) -> Any:
    """The value of a spec, as an annotation has it; ``ValueError`` says what it should have been.

    TOML has seven kinds of values, which are told apart strictly: ``"3"`` is no integer, ``true`` is no number. Nothing
    is converted but integers to floats, and strings to paths.
    """
    kinds, origin = get_args(annotation), get_origin(annotation)
    if origin is Annotated:
        found = check_value(value, kinds[0])
        for each in ranges(annotation):
            each.check(value)
        return found
    if origin is Literal:
        _check_choice(value, kinds)
        return value
    if origin in (Union, UnionType):
        if value is None and type(None) in kinds:
            return None
        others = [kind for kind in kinds if kind is not type(None)]
        if len(others) == 1:
            return check_value(value, others[0])
        for kind in others:
            with contextlib.suppress(ValueError):
                return check_value(value, kind)
    elif list in (annotation, origin):
        if isinstance(value, (list, tuple)):  # a string is iterable too
            return [check_value(each, *kinds) if kinds else each for each in value]
    elif origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a table, not {value!r}")
        return {check_value(key, kinds[0]): check_value(each, kinds[1]) for key, each in value.items()}
    elif annotation in (Any, inspect.Parameter.empty) or not isinstance(annotation, type):
        return value
    elif issubclass(annotation, PurePath):
        return annotation(check_value(value if isinstance(value, str) else str(value), str))
    elif annotation is float and isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    elif isinstance(value, annotation) and not (annotation is int and isinstance(value, bool)):
        return value
    raise ValueError(f"must be {described(annotation)}, not {value!r}")


def _check_choice(value: object, choices: Sequence[object], name: str = "") -> None:
    """Raise ``ValueError``, which suggests the nearest, for a value that is none of the choices of a ``Literal``."""
    if value not in choices:
        guess = nearest(value, map(str, choices)) if isinstance(value, str) else ""
        listed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {listed}, not {value!r}.{guess}".strip())


@functools.cache
def parameters_of(build: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a class or function by name, with annotations resolved where they can be."""
    try:
        found = list(inspect.signature(build, eval_str=True).parameters.values())
    except Exception:  # names for type checkers only, or misspelt: those annotations are left out
        scope = dict(vars(sys.modules.get(getattr(build, "__module__", ""), builtins)))
        found = [
            parameter.replace(annotation=_resolved(parameter.annotation, scope))
            for parameter in inspect.signature(build).parameters.values()
        ]
    return {each.name: each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}


def _resolved(annotation: Any, scope: dict[str, Any]) -> Any:
    """The annotation as a type, evaluated if it is a string; empty if its names exist for type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except Exception:  # evaluating it may raise anything
        return inspect.Parameter.empty


def check_ranges(build: Callable[P, R]) -> Callable[P, R]:
    """Make a function (or ``__init__``) raise ``ValueError`` for numbers out of range, and for other choices.

    Specs are checked without it; it is for those who call the function from Python.
    """

    @functools.wraps(build)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        known = parameters_of(build)
        named: dict[str, Any] = dict(zip(known, args, strict=False)) | kwargs
        for name, value in named.items():
            annotation = known[name].annotation if name in known else None
            if get_origin(annotation) is Literal:
                _check_choice(value, get_args(annotation), name)
            for each in ranges(annotation):
                each.check(value, name)
        return build(*args, **kwargs)

    return checked
