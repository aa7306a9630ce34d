"""``crvnn reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.session import Session, json_option, pass_session, print_json
from crvnn_experiments.definition import BUDGETS, table_names

if TYPE_CHECKING:
    from crvnn_experiments.results import Results


@click.command("reproduce")
@click.argument(
    "table",
    metavar="TABLE",
    shell_complete=lambda ctx, parameter, begun: [name for name in table_names() if name.startswith(begun)],
)
@click.option(
    "--budget",
    type=click.Choice(BUDGETS),
    default="laptop",
    show_default=True,
    help="laptop: small models on generated data, about a minute a run; soft: more and smaller "
    "steps by the paper's loss, decisions soft at first; paper: its settings, for a GPU.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of each row.  [default: 2 laptop, 3 soft, 5 paper]",
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
      crvnn reproduce ablation --budget soft
      crvnn reproduce ablation --add my.toml --only my
      crvnn reproduce logic --budget paper --data /datasets
      crvnn reproduce listops --show --ledger docs/results/ledger.jsonl
    """
    from crvnn_core.files import write_atomically
    from crvnn_experiments.definition import read_table
    from crvnn_experiments.ledger import Ledger
    from crvnn_experiments.pages import table_page
    from crvnn_experiments.plan import Plan
    from crvnn_experiments.results import read_results
    from crvnn_experiments.specs import with_rows
    from crvnn_experiments.worker import Worker

    definition = with_rows(read_table(table), add, session.catalog)
    definition.expect_budget(budget)
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
    for line in plan.ledger.problems:
        click.echo(f"crvnn: warning: {line}", err=True)
    finished, failed = True, 0
    if not show:
        for problem in dict.fromkeys(plan.problems.values()):
            rows = dict.fromkeys(row for (row, _), each in plan.problems.items() if each == problem)
            click.echo(f"{', '.join(rows)}: {problem}", err=True)
        worker = Worker(plan, lambda line: click.echo(line, err=True), wait)
        finished, failed = worker.work(), len(worker.failed)
    results = read_results(plan)
    path = directory / f"{definition.name}-{budget}"
    write_atomically(path.with_name(f"{path.name}.md"), results.markdown())
    plain = json.dumps(results.plain(), indent=2, ensure_ascii=False) + "\n"
    write_atomically(path.with_name(f"{path.name}.json"), plain)
    write_atomically(path.with_name(f"{path.name}.html"), table_page(results))
    if as_json:
        print_json(results.plain())
    else:
        _show(results, path)
    if not finished:
        click.echo("crvnn: interrupted; the same command resumes", err=True)
        raise SystemExit(130)
    if not show and (failed or plan.untrainable):
        reasons = [f"not trained: {', '.join(plan.untrainable)}"] if plan.untrainable else []
        reasons += [f"failed runs: {failed}"] if failed else []
        click.echo(f"crvnn: the table is not complete ({'; '.join(reasons)}); its remarks say why", err=True)
        raise SystemExit(1)


def _show(results: Results, path: Path) -> None:
    click.echo(f"{results.heading}\n")
    results.rows.print()
    if results.verdicts:
        click.echo("\nThe paper's claims, and whether they hold here:")
        results.claims.print()
    click.echo()
    for note in results.notes:
        click.echo(note)
    click.echo(f"\nWritten to {path}.md, .json and .html; the runs are listed in {results.plan.ledger.path}.")
