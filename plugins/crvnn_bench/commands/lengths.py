"""``crvnn bench lengths``: how time and memory grow with length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import (
    common_options,
    contender_option,
    limit_option,
    memory_option,
    weights_option,
)
from crvnn_bench.commands.output import (
    GIB,
    choose,
    contenders_of,
    make_setup,
    mib,
    ms,
    power,
    results_of,
    say,
)
from crvnn_bench.setup import UNTRAINED
from crvnn_core.cli.session import Session, counting, print_json, print_table

_DEFAULT = ("crvnn", "crvnn-checkpointed", "dense")
_SWEEP = (1000, 2000, 4000, 8000, 16000, 32000)


@click.command("lengths", short_help="Measure how time and memory grow with the length.")
@weights_option(UNTRAINED)
@contender_option(*_DEFAULT)
@click.option(
    "--length",
    "lengths",
    multiple=True,
    default=_SWEEP,
    show_default=True,
    type=click.IntRange(min=4),
    help="Tokens of the random sequence. May be repeated.",
)
@click.option("--depth", default=8, show_default=True, type=click.IntRange(min=1), help="Recursion steps.")
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    type=click.IntRange(min=1),
    help="Repeats of every training step.",
)
@limit_option
@memory_option
@common_options
def lengths_command(
    session: Session,
    names: tuple[str, ...],
    lengths: tuple[int, ...],
    depth: int,
    repeats: int,
    limit: float,
    memory: float,
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Measure how time and memory of a training step grow with length, at fixed depth.

    The exponents are the p of n ** p, by linear regression in log-log space.

    \b
    Examples:
      crvnn bench lengths --out lengths.json
      crvnn bench lengths --contender crvnn --length 1000 --length 32000
    """
    from crvnn_bench.experiments.lengths import Point, exponents, sweep

    setup = make_setup(session, halting=False, max_steps=depth, **setting)
    contenders = contenders_of(session, setup)
    chosen = choose(names, _DEFAULT, contenders, training=True)
    sizes = sorted(set(lengths))
    width = contenders.base.model.encoder.width
    points: list[Point] = []
    with counting(len(sizes) * len(chosen), "measuring") as done:
        swept = sweep(contenders, chosen, sizes, repeats=repeats, limit=limit, memory=memory * GIB, done=done)
        for row in swept:
            points += row
    grown = exponents(points)
    plain = [point.plain() for point in points]
    results = results_of("lengths", setup, out, width=width, points=plain, exponents=grown)
    if as_json:
        print_json(results)
        return
    rows = [
        (
            point.contender,
            f"{point.length:,}",
            ms(point.seconds),
            f"{ms(point.low)} - {ms(point.high)}" if point.seconds is not None else "",
            mib(point.bytes),
            point.note,
        )
        for point in sorted(points, key=lambda point: (chosen.index(point.contender), point.length))
    ]
    print_table(("contender", "tokens", "ms", "quartiles", "peak MiB", ""), rows, right=(1, 2, 3, 4))
    click.echo()
    table = [(name, *(power(grown[name][key]) for key in ("time", "memory"))) for name in chosen]
    print_table(("contender", "time grows as", "memory grows as"), table)
    say(f"training steps on random tokens; {setup.depth}", results)
