"""Libraries of compiled back ends: a folder with C++ sources, and their operators under ``torch.ops``."""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from crvnn_core.errors import CrvnnWarning
from crvnn_core.kernels import building
from crvnn_core.kernels.dispatch import Backend, allowed, serves

#: The libraries with a back end that is attached to an operation.
_attached: list[Library] = []


class Library:
    """C++ operators of one package, compiled on the user's machine.

    The package's folder holds ``library.cpp`` (its ``TORCH_LIBRARY(name, ...)``) and, in folders of their own, the
    headers of the operations.

    :param name: of the ``TORCH_LIBRARY``, and so the namespace under ``torch.ops``.
    :param package: whose folder it is, as ``my_package.operations``.
    """

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package
        self._operators: Operators | None = None
        self._tried = False

    @property
    def sources(self) -> Path:
        """The folder of the sources."""
        file = importlib.import_module(self.package).__file__
        assert file is not None
        return Path(file).parent

    def path(self) -> Path:
        """Where the compiled library for this torch and this processor is, or would be."""
        return building.library_path(self.name, self.sources)

    def build(self) -> Path:
        """Compile it and use it from now on; nothing is replaced unless the result can be loaded."""
        path = building.build(self.name, self.sources)
        self.forget()
        return path

    def forget(self) -> None:
        """Look for the compiled library anew when it is next needed."""
        self._operators, self._tried = None, False

    def load(self) -> Operators | None:
        """Its operators, if it has been compiled for this torch and this processor."""
        if not self._tried:
            self._operators, self._tried = self._load(), True
        return self._operators

    def _load(self) -> Operators | None:
        try:
            path = self.path()
            if not path.exists():
                return None
            torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
            return Operators(self.name)
        except (OSError, RuntimeError, AttributeError) as error:
            warnings.warn(
                f"the kernels of {self.package} are not used, so torch does the work: {error}. "
                "'crvnn doctor --build' compiles them again.",
                CrvnnWarning,
                stacklevel=3,
            )
            return None

    def backend(self, adapter: Callable[..., Any]) -> Backend:
        """Make a back end, where compiled code may run, of an adapter; a decorator.

        An adapter takes the library's operators and the arguments of an operation, and returns its result, or
        ``NotImplemented`` where the operators do not serve.
        """
        if self not in _attached:
            _attached.append(self)

        @functools.wraps(adapter)
        def run(*arguments: Any) -> Any:
            if not serves(*arguments):
                return NotImplemented
            operators = self._operators if self._tried else self.load()
            return NotImplemented if operators is None else adapter(operators, *arguments)

        return run

    def __repr__(self) -> str:
        return f"Library({self.name!r}, {self.package!r})"


class Operators:
    """The operators of a library that is in use, under ``torch.ops.NAME``; each is looked up once."""

    def __init__(self, name: str) -> None:
        self._namespace = getattr(torch.ops, name)
        if not hasattr(self, "enter"):  # which every forward pass calls
            raise AttributeError("its library.cpp does not call crvnn::define_scope")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._namespace, name).default
        self.__dict__[name] = found
        return found


def in_use() -> bool:
    """Whether compiled back ends are allowed, and a library of those attached so far is there."""
    return allowed() and any(library.load() is not None for library in _attached)


@contextlib.contextmanager
def fixed_weights() -> Iterator[None]:
    """A forward pass, in which no weights change: kernels copy them and share nodes of the graph once for all steps.

    Outside such a block kernels do so in every call, with the same results.
    """
    if not serves():
        yield
        return
    entered = [operators for library in _attached if (operators := library.load()) is not None]
    try:  # from here on: an interrupt between enter and leave must not leave a pass open
        for operators in entered:
            operators.enter()
        yield
    finally:
        for operators in entered:
            operators.leave()
