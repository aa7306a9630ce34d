"""Cells, one per module: functions from two children to their parent."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "GatedCell": "gated",
    "LSTMCell": "lstm",
    "GRUCell": "gru",
    "RNNCell": "rnn",
}


def __getattr__(name: str) -> Any:
    """The classes themselves, imported when they are first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
