"""The paper's tables in one command, ``crvnn reproduce``, and the specs of its laptop budget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from crvnn_core import NamedSpec, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def crvnn_commands() -> Iterable[click.Command]:
    from crvnn_reproduce.command import reproduce_command

    return [reproduce_command]


@hookimpl
def crvnn_specs() -> Iterable[NamedSpec]:
    here, duration = Path(__file__).parent / "specs", "minutes, one CPU core"
    return [
        NamedSpec(
            "listops-small",
            str(here / "listops-small.toml"),
            summary="ListOps of at most 10 tokens; the laptop budget of 'crvnn reproduce'",
            duration=duration,
        ),
        NamedSpec(
            "logic-small",
            str(here / "logic-small.toml"),
            summary="logical inference, short pairs; the laptop budget of 'crvnn reproduce'",
            duration=duration,
        ),
    ]
