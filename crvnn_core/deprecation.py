"""Names of earlier versions that still work, with a ``DeprecationWarning``."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
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


#: Modules that documentation of earlier versions imported from, where they are now, and what is called otherwise there.
FORMER_MODULES: dict[str, tuple[str, dict[str, str]]] = {
    "crvnn_core.published": ("crvnn_core.inference.published_weights", {}),
    "crvnn_core.variants": (
        "crvnn_core.inference.part_exchange",
        {"variant": "exchange_parts"},
    ),
    "crvnn_core.watching": (
        "crvnn_core.inference.inspection",
        {"watch": "inspect", "Watched": "InspectedSequence", "Answer": "Inspection"},
    ),
}


class FormerModules(MetaPathFinder, Loader):
    """Imports a module under its former name: a module with the former names of what has moved."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in FORMER_MODULES else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new, renamed = FORMER_MODULES[module.__name__]
        warnings.warn(f"{module.__name__} is now {new}", DeprecationWarning, stacklevel=2)
        found = importlib.import_module(new)
        vars(module).update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        vars(module).update({old: getattr(found, name) for old, name in renamed.items()})


def find_former_modules() -> None:
    """Let imports find modules by their former names, after all other finders."""
    if not any(isinstance(finder, FormerModules) for finder in sys.meta_path):
        sys.meta_path.append(FormerModules())
