"""The options that the commands of ``crvnn bench`` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from crvnn_bench.setup import HALTING_OFF_STEPS, UNTRAINED
from crvnn_core.cli.session import json_option, pass_session, plugin_option

F = TypeVar("F", bound=Callable[..., Any])


def common_options(command: F) -> F:
    """What all measurements share."""
    options = [
        click.option(
            "--preset", default="paper", show_default=True, help="The variant of untrained weights."
        ),
        click.option(
            "--width",
            default=128,
            show_default=True,
            type=click.IntRange(min=1),
            help="Of untrained weights.",
        ),
        click.option(
            "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of everything random."
        ),
        click.option(
            "--threads",
            default=0,
            type=click.IntRange(0, 1024),
            help="Of torch.  [default: torch's own choice]",
        ),
        click.option("--device", default="cpu", show_default=True, help="What to compute on: cpu or cuda."),
        click.option(
            "-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the results as JSON."
        ),
    ]
    decorated: Any = json_option(plugin_option(pass_session(command)))
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


def depth_options(command: F) -> F:
    """How deep the recursion goes."""
    command = click.option(
        "--max-steps",
        default=0,
        type=click.IntRange(min=0),
        help=f"Take at most so many recursion steps.  [default: no limit; {HALTING_OFF_STEPS} with --no-halting]",
    )(command)
    return click.option(
        "--halting/--no-halting", default=True, help="Let sequences halt, or make all take every step."
    )(command)


def weights_option(*default: str, multiple: bool = False) -> Callable[[F], F]:
    """Whose weights."""
    return click.option(
        "--weights",
        default=default if multiple else default[0],
        show_default=True,
        multiple=multiple,
        metavar="RUN",
        help=f"A run directory, an installed model, or '{UNTRAINED}'."
        + (" May be repeated." if multiple else ""),
    )


def contender_option(*default: str) -> Callable[[F], F]:
    """Who takes part."""
    return click.option(
        "--contender",
        "names",
        multiple=True,
        default=default,
        show_default=True,
        metavar="NAME",
        help="Who is measured; the others are compared with the first. May be repeated. One of crvnn, "
        "crvnn-checkpointed, crvnn-torch, crvnn-plain, crvnn-hard, dense, dense-retriever, and, where they are "
        "installed, ordered-memory, lstm and transformer.",
    )


def memory_option(command: F) -> F:
    """How much may be used."""
    return click.option(
        "--memory",
        default=8.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="GIB",
        help="What would take more memory than this is not run, and the table says so.",
    )(command)


def limit_option(command: F) -> F:
    """How long it may take."""
    return click.option(
        "--limit",
        default=120.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="A contender that takes longer for one repeat is measured fewer times, and the table says so.",
    )(command)
