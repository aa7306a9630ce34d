"""``crvnn sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.assemble import spec_options
from crvnn_core.cli.session import Session, json_option, pass_session, print_json

if TYPE_CHECKING:
    from crvnn_experiments.findings import Findings


@click.command("sweep")
@spec_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory of the study; by default one in ./runs, named after the spec.",
)
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="How many combinations to try.")
@click.option(
    "--seeds", type=click.IntRange(min=1), metavar="N", help="Runs of each trial; their mean counts."
)
@click.option("--sampler", type=click.Choice(["grid", "tpe", "random"]), help="How settings are chosen.")
@click.option("--pruner", type=click.Choice(["none", "median", "halving"]), help="Which trials end early.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes on this machine.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Work on a study that was stopped, or that other processes are working on.",
)
@click.option(
    "--show",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Show what a study has found so far, without training.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "csv"]),
    default="table",
    show_default=True,
    help="How the trials are printed.",
)
@json_option
@pass_session
def sweep_command(
    session: Session,
    /,
    spec: Path | None,
    resume: Path | None,
    show: Path | None,
    workers: int,
    form: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for the best settings of a SPEC file: its table [sweep.space] says which, and between which values.

    Each trial is a run directory. A stopped study is resumed with --resume, or with the same command again. The
    same command in another terminal, or on another machine that shares the study's directory, is another worker on the
    same study. In its directory are a page with plots (report.html), the trials as CSV and Markdown, and the best spec,
    best.toml.

    \b
    Examples:
      crvnn sweep decisions.toml
      crvnn sweep my.toml --trials 50 --seeds 3 --workers 2
      crvnn sweep --resume runs/my-sweep
      crvnn sweep --show runs/my-sweep --format markdown
    """
    from crvnn_core.runs.directory import plugin_options
    from crvnn_experiments.sweep import continue_sweep, show_sweep, start_sweep, work_together

    given = {key: value for key, value in options.items() if value not in (None, ())}
    if show is not None:
        _refuse("--show", spec, resume, given)
        _print(show_sweep(show, session.catalog), show, form, as_json)
        return
    if resume is not None:
        _refuse("--resume", spec, None, {key: value for key, value in given.items() if key != "trials"})
        study = continue_sweep(resume, session.catalog, trials=options["trials"])
    else:
        study = start_sweep(session.catalog, spec, **options)
    directory = study.path
    click.echo(f"{study.sweep.trials} trials ({study.sweep.sampler}) in {directory}.", err=True)
    finished = work_together(study, workers, lambda line: click.echo(line, err=True), session.files)
    _print(show_sweep(directory, session.catalog), directory, form, as_json)
    if not finished:
        files = f" {plugin_options(session.files)}" if session.files else ""
        click.echo(f"crvnn: interrupted; resume with: crvnn sweep --resume {directory}{files}", err=True)
        raise SystemExit(130)


def _refuse(option: str, spec: Path | None, other: Path | None, given: dict[str, Any]) -> None:
    named = ["SPEC"] * (spec is not None) + ["--resume"] * (other is not None)
    named += [f"--{key}" if key != "sets" else "--set" for key in given]
    if named:
        raise click.UsageError(f"{option} takes the settings of the study, so not {', '.join(named)}.")


def _print(findings: Findings, directory: Path, form: str, as_json: bool) -> None:
    if as_json:
        print_json({"directory": str(directory), **findings.plain()})
    elif form == "csv":
        click.echo(findings.csv(), nl=False)
    elif form == "markdown":
        click.echo(findings.trials.markdown(), nl=False)
    else:
        click.echo(f"{findings.counted}\n")
        findings.trials.print()
        if findings.complete:
            click.echo("\nHow much each setting alone explains of the differences between trials:")
            findings.settings.print()
        best = findings.best
        if best is not None:
            click.echo(
                f"\nBest: trial {best.number}, whose spec is {directory / 'best.toml'}. "
                f"Plots: {directory / 'report.html'}"
            )
