"""Hyperparameter search with Optuna: ``crvnn sweep``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "sweep",
            "crvnn_sweep.command:sweep_command",
            summary="Search for the best settings and components of a spec.",
            group="Share and measure",
        ),
    ]
