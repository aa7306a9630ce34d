"""The paper's tables in one command, ``crvnn reproduce``, and the specs of its laptop budget."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crvnn_core import LazyCommand, NamedSpec, hookimpl


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "reproduce",
            "crvnn_reproduce.command:reproduce_command",
            summary="Train the rows of a table of the paper and compare.",
            group="Share and measure",
        ),
    ]


@hookimpl
def crvnn_specs() -> Iterable[NamedSpec]:
    here, duration = Path(__file__).parent / "specs", "minutes, one CPU core"
    return [
        NamedSpec(
            "listops-small",
            str(here / "listops-small.toml"),
            summary="ListOps of at most 20 tokens; the laptop budget of 'crvnn reproduce'",
            duration=duration,
        ),
        NamedSpec(
            "listops-self-training",
            str(here / "listops-self-training.toml"),
            summary="ListOps of at most 40 tokens by self-training; for 'crvnn reproduce'",
            duration=duration,
        ),
        NamedSpec(
            "logic-self-training",
            str(here / "logic-self-training.toml"),
            summary="logical inference, short pairs, by self-training; for 'crvnn reproduce'",
            duration=duration,
        ),
        NamedSpec(
            "logic-small",
            str(here / "logic-small.toml"),
            summary="logical inference, short pairs; the laptop budget of 'crvnn reproduce'",
            duration=duration,
        ),
    ]
