"""Decisions: relaxations that turn scores into composition probabilities."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Sigmoid": "sigmoids",
    "Modulated": "sigmoids",
    "Tempered": "sigmoids",
    "GumbelSigmoid": "sigmoids",
    "StraightThrough": "sigmoids",
    "Stretched": "sigmoids",
    "Sparsemax": "sparsemax",
}


def __getattr__(name: str) -> Any:
    """The classes themselves, imported when they are first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
