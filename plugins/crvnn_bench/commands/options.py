"""Options that several commands of ``crvnn bench`` have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from crvnn_bench.contenders.names import ALONE, CRVNN, VARIANTS
from crvnn_bench.setup import HALTING_OFF_STEPS, UNTRAINED
from crvnn_core.cli.session import json_option, pass_session, plugin_option

F = TypeVar("F", bound=Callable[..., Any])


def common_options(command: F) -> F:
    """The options of every measurement: preset, width, seed, threads, device, output and plug-ins."""
    options = [
        click.option("--preset", default="paper", show_default=True, help="The preset of untrained models."),
        click.option(
            "--width",
            default=128,
            show_default=True,
            type=click.IntRange(min=1),
            help="Width of untrained models.",
        ),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed."),
        click.option(
            "--threads",
            default=0,
            type=click.IntRange(0, 1024),
            help="Threads of torch.  [default: torch's own choice]",
        ),
        click.option("--device", default="cpu", show_default=True, help="Device: cpu or cuda."),
        click.option(
            "-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the results as JSON."
        ),
    ]
    decorated: Any = json_option(plugin_option(pass_session(command)))
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


def depth_options(command: F) -> F:
    """``--halting`` and ``--max-steps``."""
    command = click.option(
        "--max-steps",
        default=0,
        type=click.IntRange(min=0),
        help=f"Take at most so many recursion steps.  [default: no limit; {HALTING_OFF_STEPS} with --no-halting]",
    )(command)
    return click.option(
        "--halting/--no-halting", default=True, help="Let sequences halt, or make them take every step."
    )(command)


def weights_option(*default: str, multiple: bool = False) -> Callable[[F], F]:
    """``--weights``: a run, an installed model, or untrained."""
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
    """``--contender``, with the default where the weights are those of ``crvnn``."""
    variants = ", ".join(name if name in ALONE else f"{CRVNN}-{name}" for name in VARIANTS)
    return click.option(
        "--contender",
        "names",
        multiple=True,
        metavar="NAME",
        help="What to measure; the others are compared with the first. May be repeated. Any installed encoder "
        f"('crvnn list encoders'), or a variant of one: {variants}, or as in my-encoder-hard.  "
        f"[default: {', '.join(default)}; with weights of another encoder, that one]",
    )


def memory_option(command: F) -> F:
    """``--memory``: the most that a measurement may take."""
    return click.option(
        "--memory",
        default=8.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="GIB",
        help="What would take more memory than this is not run, and the table says so.",
    )(command)


def limit_option(command: F) -> F:
    """``--limit``: the seconds after which a contender is measured fewer times."""
    return click.option(
        "--limit",
        default=120.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="A contender that takes longer for one repeat is measured fewer times, and the table says so.",
    )(command)
