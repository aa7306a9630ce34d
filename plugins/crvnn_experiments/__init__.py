"""Many runs shared out among processes: searches for settings and the paper's tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from crvnn_core import LazyCommand, NamedSpec, hookimpl

_SPECS = {
    "listops-small": "ListOps of at most 20 tokens; the laptop budget of 'crvnn reproduce'",
    "listops-soft-small": "ListOps of at most 40 tokens, soft decisions first; the soft budget of 'crvnn reproduce'",
    "listops-self-training-small": "ListOps of at most 40 tokens by self-training; for 'crvnn reproduce'",
    "logic-small": "logical inference, short pairs; the laptop budget of 'crvnn reproduce'",
    "logic-soft-small": "logical inference, short pairs, soft decisions first; the soft budget of 'crvnn reproduce'",
    "logic-self-training-small": "logical inference, short pairs, by self-training; for 'crvnn reproduce'",
}


@hookimpl
def crvnn_commands() -> Iterable[LazyCommand]:
    return [
        LazyCommand(
            "sweep",
            "crvnn_experiments.sweep_command:sweep_command",
            summary="Search for the best settings and components of a spec.",
            group="Share and measure",
        ),
        LazyCommand(
            "reproduce",
            "crvnn_experiments.reproduce_command:reproduce_command",
            summary="Train the rows of a table of the paper and compare.",
            group="Share and measure",
        ),
    ]


@hookimpl
def crvnn_specs() -> Iterable[NamedSpec]:
    folder = Path(__file__).parent / "specs"
    return [
        NamedSpec(name, str(folder / f"{name}.toml"), summary=summary, duration="minutes, one CPU core")
        for name, summary in _SPECS.items()
    ]
