"""Continuous recursive neural networks: encoders, trained models and their trees, from Python.

The names are listed in ``__init__.pyi`` and imported when they are first used: ``import crvnn`` takes a moment and does
not import torch. ``crvnn_core`` has what authors of plug-ins need besides.
"""

import importlib
from importlib.metadata import version
from typing import Any

from crvnn_core.lazy import attach_stub

_find, __dir__, __all__ = attach_stub(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("crvnn")
    if name == "sklearn":  # an extra, which needs scikit-learn
        return importlib.import_module("crvnn.sklearn")
    return _find(name)
