"""Names of a package that are imported when they are first used, as lazy_loader and scientific-python do it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the imports in its ``__init__.pyi``.

    Type checkers and editors read the same file, so that every name is listed once.
    """
    module = importlib.import_module(package)
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    homes = {
        alias.name: str(node.module)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*homes, *vars(module)}), sorted(homes)
