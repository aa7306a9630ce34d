"""``crvnn compare``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json, print_table

if TYPE_CHECKING:
    from crvnn_core.runs.comparison import Comparison, Row


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--groups", is_flag=True, help="Show the groups of each split (lengths, say) as well.")
@json_option
@plugin_option
@pass_session
def compare_command(session: Session, runs: tuple[str, ...], groups: bool, as_json: bool) -> None:
    """Put the results of several RUNs beside each other: directories, or installed models by name.

    Runs that differ in nothing but their seed count as one variant, with mean and standard deviation; a directory made
    with --seeds stands for its runs. Each variant is tested against the first where both have two seeds or more.

    \b
    Examples:
      crvnn compare runs/gated runs/lstm
      crvnn compare listops listops-guided --groups
      crvnn compare runs/seeds runs/other/seed-* --json
    """
    from crvnn_core.runs.comparison import METHOD, compare
    from crvnn_core.runs.records import read_runs

    found = compare(read_runs(runs, session.catalog))
    if as_json:
        print_json(found.plain())
        return
    count = sum(variant.seeds for variant in found.variants)
    several = len(found.variants) > 1
    click.echo(f"{count} run{'s' * (count > 1)} of the task '{found.variants[0].runs[0].task}'\n")
    tested = any(test is not None and test.p is not None for row in found.rows for test in row.tests)
    _show_figures(found, groups, several, tested)
    if several:
        click.echo(
            "\nWhat sets them apart:" if found.differences else "\nNothing in their specs sets them apart."
        )
        names = [variant.name for variant in found.variants]
        rows = [(key, *map(_written, values)) for key, values in found.differences.items()]
        if rows:
            print_table(("setting", *names), rows)
    for remark in found.remarks:
        click.echo(f"\n{remark}")
    if tested:
        click.echo(f"\n{METHOD}")


def _show_figures(found: Comparison, groups: bool, several: bool, tested: bool) -> None:
    columns = ["split", *(["group"] if groups else []), "variant", "examples", "seeds"]
    numbers = len(columns) - 2
    columns += ["accuracy %", "loss", "mean depth"]
    columns += (["difference"] if several else []) + (["95%", "p"] if tested else [])
    rows = list(_figures(found, groups, several, tested))
    print_table(columns, rows, right=range(numbers, len(columns)))


def _figures(found: Comparison, groups: bool, several: bool, tested: bool) -> Iterator[list[str]]:
    """A line for every split (and group, if asked for) and variant."""
    by_place: dict[tuple[str, str], dict[str, Row]] = {}
    for row in found.rows:
        if groups or not row.bucket:
            by_place.setdefault((row.split, row.bucket), {})[row.measure] = row
    for (split, bucket), rows in by_place.items():
        for number, variant in enumerate(found.variants):
            first = number == 0
            place = [split if first else "", *([(bucket or "all") if first else ""] if groups else [])]
            examples = variant.values(split, bucket, "examples")
            counts = [f"{examples[0]:,.0f}", str(len(examples))] if examples else ["-", "-"]
            cells = [
                spread.written(measure, digits)
                if measure in rows and (spread := rows[measure].spreads[number]) is not None
                else "-"
                for measure, digits in (("accuracy", 1), ("loss", 3), ("depth", 1))
            ]
            yield [
                *place,
                variant.name,
                *counts,
                *cells,
                *_test(rows.get("accuracy"), number, several, tested),
            ]


def _test(row: Row | None, number: int, several: bool, tested: bool) -> list[str]:
    test = row.tests[number] if row else None
    if not several:
        return []
    if test is None:
        return ["", *(["", ""] if tested else [])]
    cells = [f"{100 * test.difference:+.1f}"]
    if tested:
        low, high = test.interval or (0, 0)
        cells.append(f"{100 * low:+.1f} to {100 * high:+.1f}" if test.interval else "-")
        if test.adjusted is None or test.least is None:
            cells.append("-")
        else:
            least = " (the least possible)" if test.p == test.least else ""
            cells.append(f"{test.adjusted:.2g}{least}")
    return cells


def _written(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value else repr(value)
