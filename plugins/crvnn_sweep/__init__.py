"""Hyperparameter search with Optuna: ``crvnn sweep``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from crvnn_core import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def crvnn_commands() -> Iterable[click.Command]:
    from crvnn_sweep.command import sweep_command

    return [sweep_command]
