"""Reports on runs, one HTML page that needs nothing else: ``crvnn report``."""

from __future__ import annotations

from collections.abc import Iterable

from crvnn_core import LazyCommand, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "report",
            "crvnn_report.command:report_command",
            summary="Write one page about runs, or several compared.",
            group="Look",
        ),
    ]
