"""``crvnn data check``: what the files of a task contain, and which rows are malformed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from crvnn_core.cli.session import Session, json_option, pass_session, print_json, set_option
from crvnn_tasks.data.survey import Findings, histogram, missing_splits, summary, survey

if TYPE_CHECKING:
    from crvnn_core.host.catalog import Offer
    from crvnn_tasks.rows import FileTask

_WIDTH = 40  # of the longest bar, in characters


def task_of(offer: Offer, directory: Path | None, sets: Sequence[str]) -> FileTask:
    """The task built with these settings alone; ``CrvnnError`` unless it reads files."""
    import inspect

    from crvnn_core.errors import CrvnnError
    from crvnn_core.spec.description import with_parameters
    from crvnn_core.spec.reader import settings_of
    from crvnn_tasks.rows import FileTask

    name = offer.component.name
    known = settings_of(offer)
    bare = evolve(offer, component=evolve(offer.component, example={}))  # an example is for the contract only
    settings = dict(with_parameters(bare, sets).example)
    if directory is not None:
        if "directory" not in known:
            files = f"; name its files with --set, as --set task.{next(iter(known))}=FILE" if known else ""
            raise CrvnnError(f"task '{name}' has no directory{files}")
        settings["directory"] = str(directory)
    missing = [
        key for key, each in known.items() if each.default is inspect.Parameter.empty and key not in settings
    ]
    if "directory" in known and not settings.get("directory"):
        raise CrvnnError(f"task '{name}' needs the directory of its files: --dir DIRECTORY")
    if missing:
        raise CrvnnError(f"task '{name}' needs a '{missing[0]}': --set task.{missing[0]}=...")
    try:
        task = offer.component.make({}, **settings)
    except ValueError as error:
        raise CrvnnError(f"{offer} refuses these settings: {error}") from error
    if not isinstance(task, FileTask):
        raise CrvnnError(f"{offer} reads no files")
    return task


@click.command("check", short_help="Read the files of a task and report what is wrong.")
@click.argument("name")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where the files are.")
@set_option
@json_option
@pass_session
def check_command(
    session: Session, name: str, directory: Path | None, sets: tuple[str, ...], as_json: bool
) -> None:
    """Read the files of the task NAME and print rows, labels, lengths, duplicates and malformed rows.

    Exits with 1 if rows are malformed, or if files have changed since 'crvnn data get' downloaded them. A published
    split that is missing is reported, and is not an error.

    \b
    Examples:
      crvnn data check sst5 --dir data/sst
      crvnn data check from-file --set task.train=reviews.csv
    """
    from rich.console import Console

    from crvnn_tasks.data.downloads import changed

    offer = session.catalog.find("task", name)
    task = task_of(offer, directory, sets)
    with Console(stderr=True).status(f"Reading the files of {name}"):  # shown on a terminal only
        found = survey(task)
    altered = changed(task.directory) if "directory" in offer.component.parameters() else []
    broken = sum(findings.broken for findings in found)
    missing = missing_splits(task)
    if as_json:
        splits = {findings.split: findings.plain(task.classes) for findings in found}
        print_json({"task": name, "broken": broken, "changed": altered, "missing": missing, "splits": splits})
    else:
        for findings in found:
            _print_findings(findings, task.classes)
        for split, why in missing.items():
            click.echo(f"{split}: missing\n  {why}")
        for file in altered:
            click.echo(f"{task.directory / file} has changed since it was downloaded: its checksum differs")
        click.echo(
            f"{sum(findings.rows for findings in found):,} rows are well-formed, {broken:,} are malformed."
        )
    if broken or altered or any(findings.error for findings in found):
        raise SystemExit(1)


def _print_findings(findings: Findings, classes: Sequence[str]) -> None:
    click.echo(f"{findings.split}: {findings.rows:,} rows  ({', '.join(findings.files)})")
    if findings.rows:
        shares = [
            f"{name} {findings.labels[number]:,} ({findings.labels[number] / findings.rows:.1%})"
            for number, name in enumerate(classes)
        ]
        click.echo(f"  labels: {', '.join(shares)}")
        sizes = summary(findings.lengths)
        click.echo(
            f"  tokens: mean {sizes['mean']:.1f}, median {sizes['median']:g}, at most {sizes['max']:,}"
        )
        _print_bars(histogram(findings.lengths))
    if findings.repeated:
        click.echo(f"  rows with a text that an earlier row of this split has: {findings.repeated:,}")
    for split, count in findings.seen.items():
        click.echo(f"  rows with a text that is in '{split}' too: {count:,}")
    for row in findings.faults:
        click.echo(f"  {row}")
    if findings.broken > len(findings.faults):
        click.echo(f"  and {findings.broken - len(findings.faults):,} more malformed rows")
    if findings.error:
        click.echo(f"  {findings.error}")


def _print_bars(bars: Sequence[dict[str, int]]) -> None:
    """Print the histogram as numbers, and on a terminal as bars too."""
    block, most = _block(), max(bar["count"] for bar in bars)
    names = [f"{bar['from']}-{bar['to']}" if bar["to"] > bar["from"] else f"{bar['to']}" for bar in bars]
    width, digits = max(map(len, names)), len(f"{most:,}")
    for name, bar in zip(names, bars, strict=True):
        line = block * round(_WIDTH * bar["count"] / most)
        click.echo(f"    {name:>{width}}  {bar['count']:>{digits},}  {line}".rstrip())


def _block() -> str:
    """The character that bars are drawn with; empty if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return ""
    return "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
