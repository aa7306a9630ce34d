"""Speed, memory and lengths measured: ``crvnn bench``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "bench",
            "crvnn_bench.commands:bench",
            summary="Measure time, memory, and the effect of shortcuts.",
            group="Share and measure",
        ),
    ]
