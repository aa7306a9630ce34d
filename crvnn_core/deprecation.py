"""Names of earlier versions that still work, with a ``DeprecationWarning``."""

from __future__ import annotations

import warnings
from typing import Any


class Renamed:
    """An attribute under its former name: reading or setting it reaches the new one.

    A class body that sets the former name sets the new one instead, if a base class calls ``adopt_renamed`` from
    ``__init_subclass__``.
    """

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, part: object | None, owner: type) -> Any:
        self.warn(owner)
        return getattr(owner if part is None else part, self.new)

    def __set__(self, part: object, value: Any) -> None:
        self.warn(type(part), stacklevel=4)  # past nn.Module.__setattr__
        setattr(part, self.new, value)

    def warn(self, owner: type, stacklevel: int = 3) -> None:
        """Say what to write instead."""
        warnings.warn(
            f"{owner.__name__}.{self.old} is now called {self.new}", DeprecationWarning, stacklevel=stacklevel
        )


def adopt_renamed(cls: type) -> None:
    """Give what a class body sets under a former name its new name."""
    for base in cls.__mro__[1:]:
        for old, renamed in vars(base).items():
            if isinstance(renamed, Renamed) and old in vars(cls):
                renamed.warn(
                    cls, stacklevel=5
                )  # at the class statement: past this, __init_subclass__ and ABCMeta
                setattr(cls, renamed.new, vars(cls)[old])
                delattr(cls, old)
