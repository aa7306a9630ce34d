"""``crvnn compare``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.session import RUN, Session, json_option, pass_session, print_json, print_table

if TYPE_CHECKING:
    from crvnn_core.runs.comparison import Comparison, Row, Significance


@click.command("compare")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--groups", is_flag=True, help="Show the groups of each split (by length, for example) as well."
)
@json_option
@pass_session
def compare_command(session: Session, runs: tuple[str, ...], groups: bool, as_json: bool) -> None:
    """Compare the results of RUNs: directories, or installed models by name.

    Runs that differ only in their seed are one variant, shown with mean and standard deviation; a directory made with
    --seeds stands for all its runs. Each variant with two seeds or more is tested against the first.

    \b
    Examples:
      crvnn compare runs/gated runs/lstm
      crvnn compare listops listops-guided --groups
      crvnn compare runs/seeds runs/other/seed-* --json
    """
    from crvnn_core.host.runs import read_runs
    from crvnn_core.runs.comparison import METHOD, compare

    comparison = compare(read_runs(runs, session.catalog))
    if as_json:
        print_json(comparison.to_dict())
        return
    count = sum(variant.seeds for variant in comparison.variants)
    several = len(comparison.variants) > 1
    click.echo(f"{count} run{'s' * (count > 1)} of the task '{comparison.variants[0].runs[0].task}'\n")
    tested = any(test is not None and test.p is not None for row in comparison.rows for test in row.tests)
    columns = ["split", *(["group"] if groups else []), "variant", "examples", "seeds"]
    first_number = len(columns) - 2
    columns += ["accuracy %", "loss", "mean depth"]
    columns += (["difference"] if several else []) + (["95%", "p"] if tested else [])
    lines = [line[: len(columns)] for line in _cells(comparison, groups)]
    print_table(columns, lines, right=range(first_number, len(columns)))
    if several:
        _show_differences(comparison)
    for remark in comparison.remarks:
        click.echo(f"\n{remark}")
    if tested:
        click.echo(f"\n{METHOD}")


def _cells(comparison: Comparison, groups: bool) -> Iterator[list[str]]:
    """The cells of a line for each split (and group, if asked for) and variant."""
    by_group: dict[tuple[str, str], dict[str, Row]] = {}
    for row in comparison.rows:
        if groups or not row.group:
            by_group.setdefault((row.split, row.group), {})[row.metric] = row
    for (split, group), rows in by_group.items():
        for number, variant in enumerate(comparison.variants):
            names = [split, *([group or "all"] if groups else [])]
            examples = variant.values(split, group, "examples")
            accuracy = rows.get("accuracy")
            yield [
                *(names if number == 0 else [""] * len(names)),
                variant.name,
                *([f"{examples[0]:,.0f}", str(len(examples))] if examples else ["-", "-"]),
                *(
                    spread.format(metric, digits)
                    if metric in rows and (spread := rows[metric].spreads[number]) is not None
                    else "-"
                    for metric, digits in (("accuracy", 1), ("loss", 3), ("depth", 1))
                ),
                *_significance(accuracy.tests[number] if accuracy else None),
            ]


def _significance(test: Significance | None) -> list[str]:
    """The cells for difference, interval and p."""
    if test is None:
        return ["", "", ""]
    interval = " to ".join(f"{100 * end:+.1f}" for end in test.interval) if test.interval else "-"
    smallest = " (smallest possible)" if test.p is not None and test.p == test.p_min else ""
    p = "-" if test.p_adjusted is None else f"{test.p_adjusted:.2g}{smallest}"
    return [f"{100 * test.difference:+.1f}", interval, p]


def _show_differences(comparison: Comparison) -> None:
    from crvnn_core.runs.records import with_stages_in_brief

    if not comparison.differences:
        click.echo("\nTheir settings are the same.")
        return
    click.echo("\nSettings that differ:")
    names = [variant.name for variant in comparison.variants]
    shown = with_stages_in_brief(comparison.differences)
    print_table(("setting", *names), [(key, *map(_value, values)) for key, values in shown.items()])
    if len(shown) < len(comparison.differences):
        click.echo("Stages that only some have are summarised; --json has all their settings.")


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) and value else repr(value)
