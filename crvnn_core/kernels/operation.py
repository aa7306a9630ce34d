"""Operations: functions defined by their body in torch, to which back ends are attached."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
#: Takes the arguments of an operation; returns its result, or ``NotImplemented`` where it does not serve.
Backend = Callable[..., Any]


class Operation(Generic[P, R]):
    """A decorator: a function whose body defines it; calling it runs the first back end that serves, else the body.

    Back ends get all arguments by position. ``body`` is the definition itself, for comparison.
    """

    def __init__(self, body: Callable[P, R]) -> None:
        self.body = body
        self.backends: list[Backend] = []
        functools.update_wrapper(self, body)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        given = self._by_position(*args, **kwargs) if kwargs else args
        for backend in self.backends:
            found = backend(*given)
            if found is not NotImplemented:
                return found  # type: ignore[no-any-return]
        return self.body(*args, **kwargs)

    def _by_position(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """All arguments of a call, with the defaults of those that it leaves out."""
        bound = inspect.signature(self.body).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def __reduce__(self) -> str:
        """Pickled and copied by name, as a function is."""
        return self.body.__qualname__

    def attach(self, backend: Backend) -> Backend:
        """Try ``backend`` before the body, after those that were attached earlier; also a decorator."""
        self.backends.append(backend)
        return backend

    def __repr__(self) -> str:
        return f"<operation {self.body.__module__}.{self.body.__qualname__}, {len(self.backends)} back ends>"
