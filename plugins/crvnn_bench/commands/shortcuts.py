"""``crvnn bench shortcuts``: the time that each shortcut saves, and what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import common_options, weights_option
from crvnn_bench.commands.output import contenders_of, make_setup, results_of, say
from crvnn_core.cli.session import Session, counting, print_json, print_table


@click.command("shortcuts", short_help="Measure every shortcut, alone and together.")
@weights_option("listops")
@click.option(
    "--rows",
    default=10_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Expressions of all lengths.",
)
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    default=(0.0, 0.001, 0.01),
    show_default=True,
    type=click.FloatRange(0, 1, max_open=True),
    help="Tolerance of drop and skip. May be repeated.",
)
@common_options
def shortcuts_command(
    session: Session,
    rows: int,
    tolerances: tuple[float, ...],
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Measure every shortcut, alone and together: the time that it saves, and what it changes.

    Dropping positions, skipping cells and hard inference are compared with the same model without shortcuts: in time,
    in the components of sentence vectors, and in accuracy.

    \b
    Examples:
      crvnn bench shortcuts --rows 1000
      crvnn bench shortcuts --weights runs/first --tolerance 0.001
    """
    from crvnn_bench.experiments.shortcuts import count_jobs, effects, rows_of, settings

    setup = make_setup(session, **setting)
    contenders = contenders_of(session, setup)
    chosen = settings(contenders, list(dict.fromkeys(tolerances)))
    examples = rows_of(rows, setup.seed)
    with counting(count_jobs(examples, chosen), "encoding") as done:
        found = effects(contenders, examples, chosen, done)
    results = results_of("shortcuts", setup, out, rows=rows, effects=[effect.plain() for effect in found])
    if as_json:
        print_json(results)
        return
    columns = (
        "setting",
        "seconds",
        "x none",
        "largest change",
        "99.9% below",
        "accuracy",
        "difference",
        "steps",
    )
    table = [
        (
            effect.setting,
            f"{effect.seconds:.2f}",
            f"{effect.relative:.3f}",
            f"{effect.largest:.2g}",
            f"{effect.most:.2g}",
            f"{effect.accuracy:.2%}",
            f"{100 * effect.difference:+.2f}",
            f"{effect.steps:.1f}",
        )
        for effect in found
    ]
    print_table(columns, table, right=tuple(range(1, 8)))
    say(f"forward passes on {rows:,} expressions of all lengths, weights '{setup.weights}'", results)
