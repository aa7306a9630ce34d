"""``crvnn reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json, print_table

if TYPE_CHECKING:
    from crvnn_reproduce.results import Results


@click.command("reproduce")
@click.argument("table", metavar="TABLE", shell_complete=lambda *about: _begun(*about))
@click.option(
    "--budget",
    type=click.Choice(["laptop", "paper"]),
    default="laptop",
    show_default=True,
    help="Small models on generated data, minutes a row; or the paper's settings, for a GPU.",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), metavar="N", help="Of each row.  [default: 2 laptop, 5 paper]"
)
@click.option("--only", metavar="ROW,...", help="These rows alone, and those of --add.")
@click.option(
    "--add",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="SPEC",
    help="One more row: the model of this spec, with the table's data and training. May be repeated.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/reproduce"),
    show_default=True,
    metavar="DIR",
    help="Where runs and tables are kept; several processes and machines may share it.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("data"),
    show_default=True,
    metavar="DIR",
    help="Where the datasets are, each in a directory of its name.",
)
@click.option(
    "--ledger",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where each run is recorded, and what the table is made from.  [default: DIR/ledger.jsonl]",
)
@click.option("--show", is_flag=True, help="Make the table from the ledger as it is; train nothing.")
@click.option(
    "--wait/--no-wait", default=True, help="Wait for rows that other processes train.  [default: wait]"
)
@json_option
@plugin_option
@pass_session
def reproduce_command(
    session: Session,
    table: str,
    budget: str,
    seeds: int | None,
    only: str | None,
    add: tuple[Path, ...],
    directory: Path,
    data: Path,
    ledger: Path | None,
    show: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Train the rows of a TABLE of the paper and show them beside what is published.

    \b
    The tables: logic, systematicity, listops, listops-lengths,
    natural-language, ablation, speed; beyond the paper ablation-self-training,
    arguments, depth and encoders; or a TOML file of your own.

    What is done is skipped, what was interrupted is resumed, and the same command in another terminal or on another
    machine, with the same --dir, takes other rows. The table is written to DIR as Markdown, JSON and HTML. The exit
    code is 1 if a row could not be trained, for want of its data for example; its remark says why.

    \b
    Examples:
      crvnn reproduce listops
      crvnn reproduce listops --only crvnn,lstm --seeds 5
      crvnn reproduce ablation --add my.toml --only my
      crvnn reproduce logic --budget paper --data /datasets
      crvnn reproduce listops --show --ledger docs/results/ledger.jsonl
    """
    from crvnn_reproduce.definition import read_table
    from crvnn_reproduce.ledger import Ledger
    from crvnn_reproduce.plan import Plan
    from crvnn_reproduce.results import read_results
    from crvnn_reproduce.specs import with_rows

    definition = with_rows(read_table(table), add, session.catalog)
    if only is not None:
        names = [name.strip() for name in only.split(",") if name.strip()]
        definition = definition.only([*names, *(path.stem for path in add)])
    plan = Plan(
        table=definition,
        budget=budget,
        seeds=seeds,
        directory=directory,
        data=data,
        catalog=session.catalog,
        ledger=Ledger(ledger or directory / "ledger.jsonl"),
    )
    plan.ledger.read(lambda line: click.echo(f"crvnn: warning: {line}", err=True))
    finished, failed = True, 0
    if not show:
        from crvnn_reproduce.work import Worker

        for problem in dict.fromkeys(plan.problems.values()):
            rows = dict.fromkeys(row for (row, _), each in plan.problems.items() if each == problem)
            click.echo(f"{', '.join(rows)}: {problem}", err=True)
        worker = Worker(plan, lambda line: click.echo(line, err=True), wait)
        finished, failed = worker.work(), len(worker.failed)
    results = read_results(plan)
    _write(results)
    if as_json:
        print_json(results.plain())
    else:
        _show(results)
    if not finished:
        click.echo("crvnn: interrupted; the same command goes on from here", err=True)
        raise SystemExit(130)
    if not show and (failed or plan.untrainable):
        reasons = [f"not trained: {', '.join(plan.untrainable)}"] if plan.untrainable else []
        reasons += [f"failed runs: {failed}"] if failed else []
        click.echo(f"crvnn: the table is not complete ({'; '.join(reasons)}); its remarks say why", err=True)
        raise SystemExit(1)


def _begun(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The tables whose names begin so, for the shell."""
    from crvnn_reproduce.definition import table_names

    return [name for name in table_names() if name.startswith(begun)]


def _write(results: Results) -> None:
    """Write the table as Markdown, JSON and HTML."""
    from crvnn_core.files import write_atomically
    from crvnn_reproduce.output import markdown
    from crvnn_reproduce.page import page

    path = _path(results)
    write_atomically(path.with_suffix(".md"), markdown(results))
    write_atomically(
        path.with_suffix(".json"), json.dumps(results.plain(), indent=2, ensure_ascii=False) + "\n"
    )
    write_atomically(path.with_suffix(".html"), page(results))


def _path(results: Results) -> Path:
    """The table's files, but for what they end in."""
    plan = results.plan
    return plan.directory / f"{plan.table.name}-{plan.budget}"


def _show(results: Results) -> None:
    from crvnn_reproduce.output import heading, notes, sheet, verdict_sheet

    rows, verdicts = sheet(results), verdict_sheet(results)
    click.echo(f"{heading(results)}\n")
    print_table(rows.columns, rows.rows, right=rows.right)
    if verdicts.rows:
        click.echo("\nThe paper's claims, and whether they hold here:")
        print_table(verdicts.columns, verdicts.rows)
    click.echo()
    for note in notes(results):
        click.echo(note)
    click.echo(
        f"\nWritten to {_path(results)}.md, .json and .html; the runs are listed in {results.plan.ledger.path}."
    )
