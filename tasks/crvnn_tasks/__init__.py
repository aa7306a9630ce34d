"""The built-in tasks, and the demonstration, registered exactly as a third party's would be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crvnn_core import Component, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def crvnn_tasks() -> Iterable[Component]:
    return [
        Component("listops", "crvnn_tasks.listops:ListOps", summary="nested MIN, MAX, MED and SM of digits")
    ]


@hookimpl
def crvnn_commands() -> Iterable[click.Command]:
    from crvnn_tasks.demo import demo

    return [demo]
