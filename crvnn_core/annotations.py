"""Annotations of parameters that say more than their type: paths, the range of a number, and choices (``Literal``).

A plug-in writes them in the signature of its component. Specs are checked against them; ``crvnn list`` shows them::

    @check_ranges
    def __init__(self, path: FilePath, dropout: Probability = 0.1, depth: Annotated[int, Range(ge=2)] = 8) -> None:
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin

from attrs import frozen

from crvnn_core.errors import nearest

P = ParamSpec("P")
R = TypeVar("R")


@frozen
class PathText:
    """Marks a string as the path of a file or directory."""

    def __str__(self) -> str:
        return "a path"


@frozen(kw_only=True)
class Range:
    """The numbers that a value may be, as in ``Annotated[float, Range(ge=0, lt=1)]``; never NaN or infinity.

    :param gt: it is greater than this.
    :param ge: it is greater than this or equal to it.
    :param lt: it is less than this.
    :param le: it is less than this or equal to it.
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
        """Raise ``ValueError`` for a number out of range.

        :param name: of the parameter, for the message.
        """
        if value not in self:
            limits = str(self) if -math.inf < value < math.inf else "finite"
            raise ValueError(f"{name} must be {limits}, not {value}".strip())

    def __call__(self, instance: object, attribute: object, value: float) -> None:
        """Validate a field of a class of attrs."""
        self.check(value)


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


def ranges(annotation: Any) -> Iterator[Range]:
    """The ranges that an annotation gives the values themselves, not those inside lists."""
    yield from (each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, Range))


def choices_error(value: object, choices: Sequence[object], name: str = "") -> ValueError:
    """The error for a value that is none of the choices of a ``Literal``; it suggests the nearest."""
    listed = ", ".join(map(repr, choices))
    guess = nearest(value, map(str, choices)) if isinstance(value, str) else ""
    return ValueError(f"{name} must be one of {listed}, not {value!r}.{guess}".strip())


def parameters_of(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function by name, with annotations resolved where they can be."""
    try:
        found = inspect.signature(build, eval_str=True).parameters.values()
    except Exception:  # names for type checkers only, or misspelt: those annotations are left out
        found = inspect.signature(build).parameters.values()
    return {
        p.name: p.replace(annotation=_resolved(p.annotation, build))
        for p in found
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def _resolved(annotation: Any, build: object) -> Any:
    """The annotation as a type, evaluated if it is a string; empty if its names exist for type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    scope = vars(sys.modules.get(getattr(build, "__module__", ""), builtins))
    try:
        return eval(annotation, dict(scope))
    except Exception:  # evaluating it may raise anything
        return inspect.Parameter.empty


def check_ranges(build: Callable[P, R]) -> Callable[P, R]:
    """Make a function (or ``__init__``) raise ``ValueError`` for arguments that its annotations do not allow.

    Checked are ranges of numbers, and choices (``Literal``).

    Specs are checked without it; it is for those who call the function from Python.
    """

    @functools.cache
    def annotations() -> dict[str, Any]:
        return {name: p.annotation for name, p in parameters_of(build).items()}

    @functools.wraps(build)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        named: dict[str, Any] = dict(zip(annotations(), args, strict=False)) | kwargs
        for name, value in named.items():
            annotation = annotations().get(name)
            if get_origin(annotation) is Literal and value not in get_args(annotation):
                raise choices_error(value, get_args(annotation), name)
            for each in ranges(annotation):
                each.check(value, name)
        return build(*args, **kwargs)

    return checked
