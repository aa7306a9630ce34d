"""``crvnn report``."""

from __future__ import annotations

from pathlib import Path

import click

from crvnn_core.cli.session import FILE, RUN, Session, counting, pass_session, set_option


@click.command("report")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--out",
    type=FILE,
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="The page to write.",
)
@click.option(
    "--split", metavar="NAME", help="The split whose examples are shown; by default the task's last one."
)
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=400,
    show_default=True,
    metavar="N",
    help="Examples of the split that each model predicts, for confusion, depth and trees; 0 for none.",
)
@click.option(
    "--trees",
    type=click.IntRange(0, 50),
    default=6,
    show_default=True,
    metavar="N",
    help="How many of them are shown with their trees and steps.",
)
@click.option(
    "--text",
    "texts",
    multiple=True,
    metavar="TEXT",
    help="Show the tree and steps of this text as well. May be repeated.",
)
@set_option
@pass_session
def report_command(
    session: Session,
    runs: tuple[str, ...],
    out: Path,
    split: str | None,
    examples: int,
    trees: int,
    texts: tuple[str, ...],
    sets: tuple[str, ...],
) -> None:
    """Write one page about RUNs: directories, or installed models by name.

    It shows results, learning curves, depth, confusion, trees and steps of examples, and the spec, of several runs side
    by side. Runs that differ only in their seed are shown as one variant. The page is one file that opens offline. A
    task on pairs takes the texts two by two.

    \b
    Examples:
      crvnn report runs/first
      crvnn report listops listops-guided --text "[MAX 2 [MIN 4 7 ] 0 ]"
      crvnn report runs/gated runs/lstm --split test --examples 1000
    """
    from crvnn_core.files import write_atomically
    from crvnn_report.page import page
    from crvnn_report.report import collect_report

    report = collect_report(
        runs, session.catalog, counting, split=split, examples=examples, trees=trees, texts=texts, sets=sets
    )
    content = page(report)
    write_atomically(out, content)
    for remark in report.remarks:
        click.echo(remark, err=True)
    if report.sample.problem and examples:
        click.echo(f"No examples: {report.sample.problem}", err=True)
    click.echo(f"{out}: {len(content.encode()) / 1e3:,.0f} kB, self-contained; open it in any browser.")
