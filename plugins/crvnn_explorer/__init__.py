"""Explore trained models in a browser: ``crvnn explore``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "explore",
            "crvnn_explorer.command:explore",
            summary="Inspect models step by step, in a browser.",
            group="Look",
        ),
    ]
