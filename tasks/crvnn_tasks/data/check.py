"""``crvnn data check``: what is in the files of a task, and what is wrong with them."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import define, evolve, field

from crvnn_core.cli.session import Session, json_option, pass_session, plugin_option, print_json

if TYPE_CHECKING:
    from crvnn_core.host.manager import Offer
    from crvnn_tasks.rows import FileTask, Row

_SHOWN = 20  # malformed rows
_BARS = 12  # in a histogram, at most
_WIDTH = 40  # of the longest bar


@define
class Findings:
    """What a split's files hold."""

    split: str
    files: list[str] = field(factory=list)
    labels: Counter[int] = field(factory=Counter)
    lengths: Counter[int] = field(factory=Counter)  # of single sequences: a pair has two
    repeated: int = 0  # rows whose text was in this split before
    seen: Counter[str] = field(factory=Counter)  # rows whose text is in an earlier split
    broken: int = 0
    faults: list[Row] = field(factory=list)  # the first of them
    error: str = ""  # why a file could not be read to its end

    @property
    def rows(self) -> int:
        """Those that can be used."""
        return self.labels.total()

    def plain(self, classes: Sequence[str]) -> dict[str, Any]:
        """The findings for machines."""
        return {
            "files": self.files,
            "rows": self.rows,
            "labels": {name: self.labels[number] for number, name in enumerate(classes)},
            "length": {**summary(self.lengths), "histogram": histogram(self.lengths)},
            "repeated": self.repeated,
            "seen in": dict(self.seen),
            "broken": self.broken,
            "faults": [{"file": str(row.file), "line": row.line, "fault": row.fault} for row in self.faults],
            "error": self.error,
        }


def survey(task: FileTask) -> list[Findings]:
    """Read every row of every split."""
    from crvnn_core.errors import CrvnnError

    texts: dict[str, set[int]] = {}
    found = []
    left_out = absent(task)
    for split in task.files:
        if split in left_out:
            continue
        findings = Findings(split)
        found.append(findings)
        try:
            findings.files = [str(path) for path in task.paths(split)]
            _count(task.rows(split), findings, texts)
        except CrvnnError as error:
            findings.error = str(error)
    if all(findings.error and not findings.rows and not findings.broken for findings in found):
        raise CrvnnError(found[0].error)
    return found


def absent(task: FileTask) -> dict[str, str]:
    """Splits that do without their files, as published ones may, and which file is missing."""
    _, *others = task.files
    missing = {split: task.why_missing(split) for split in others if split not in task.named}
    return {split: why for split, why in missing.items() if why}


def _count(rows: Iterable[Row], findings: Findings, texts: dict[str, set[int]]) -> None:
    own = texts.setdefault(findings.split, set())
    for row in rows:
        if row.example is None:
            findings.broken += 1
            findings.faults += [row] if len(findings.faults) < _SHOWN else []
            continue
        text = hash(row.example.sequences)
        findings.labels[row.example.label] += 1
        findings.lengths.update(map(len, row.example.sequences))
        findings.repeated += text in own
        own.add(text)
        findings.seen.update(split for split, seen in texts.items() if seen is not own and text in seen)


def summary(lengths: Counter[int]) -> dict[str, float]:
    """Mean, median and longest."""
    if not lengths:
        return {"mean": 0.0, "median": 0.0, "max": 0}
    ordered = sorted(lengths.elements())
    return {"mean": statistics.fmean(ordered), "median": statistics.median(ordered), "max": ordered[-1]}


def histogram(lengths: Counter[int]) -> list[dict[str, int]]:
    """How many sequences there are of each range of lengths; ranges are equally wide, by a round number."""
    if not lengths:
        return []
    longest = max(lengths)
    widths = (step * 10**power for power in range(12) for step in (1, 2, 5))
    width = next(width for width in widths if -(-longest // width) <= _BARS)
    counts = Counter({-(-length // width): 0 for length in range(1, longest + 1, width)})
    for length, count in lengths.items():
        counts[-(-length // width)] += count
    return [
        {"from": (bar - 1) * width + 1, "to": bar * width, "count": count}
        for bar, count in sorted(counts.items())
    ]


def task_of(offer: Offer, directory: Path | None, sets: Sequence[str]) -> FileTask:
    """The task with these settings and no others; an error unless it reads files."""
    import inspect

    from crvnn_core.errors import CrvnnError
    from crvnn_core.host.description import with_parameters
    from crvnn_core.spec.resolve import settings_of
    from crvnn_tasks.rows import FileTask

    name = offer.component.name
    known = settings_of(offer)
    bare = evolve(offer, component=evolve(offer.component, example={}))  # an example is for the contract only
    own = [text.removeprefix("task.") for text in sets]  # as in a spec: there is nothing else to set
    settings = dict(with_parameters(bare, own).example)
    if directory is not None:
        if "directory" not in known:
            files = f"; name its files with --set, as --set {next(iter(known))}=FILE" if known else ""
            raise CrvnnError(f"task '{name}' has no directory{files}")
        settings["directory"] = str(directory)
    missing = [
        key for key, each in known.items() if each.default is inspect.Parameter.empty and key not in settings
    ]
    if "directory" in known and not settings.get("directory"):
        raise CrvnnError(f"say where the files of '{name}' are: --dir DIRECTORY")
    if missing:
        raise CrvnnError(f"task '{name}' needs a '{missing[0]}': --set {missing[0]}=...")
    try:
        task = offer.component.make({}, **settings)
    except ValueError as error:
        raise CrvnnError(f"{offer} refuses these settings: {error}") from error
    if not isinstance(task, FileTask):
        raise CrvnnError(f"{offer} reads no files that could be checked")
    return task


@click.command("check")
@click.argument("name")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where the files are.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a parameter of the task.")
@json_option
@plugin_option
@pass_session
def check_command(
    session: Session, name: str, directory: Path | None, sets: tuple[str, ...], as_json: bool
) -> None:
    """Read the files of the task NAME: rows, labels, lengths, and every row that is broken.

    Exits with 1 if there are broken rows, or files that changed since 'crvnn data get' fetched them. A published split
    that is missing is told of, and is no error.

    \b
    Examples:
      crvnn data check sst5 --dir data/sst
      crvnn data check from-file --set train=reviews.csv --set label=stars
    """
    from rich.console import Console

    from crvnn_tasks.data.downloads import changed

    offer = session.catalog.find("task", name)
    task = task_of(offer, directory, sets)
    with Console(stderr=True).status(f"Reading the files of {name}"):  # seen on a terminal only
        found = survey(task)
    altered = changed(task.directory) if "directory" in offer.component.parameters() else []
    broken = sum(findings.broken for findings in found)
    left_out = absent(task)
    if as_json:
        splits = {findings.split: findings.plain(task.classes) for findings in found}
        print_json(
            {"task": name, "broken": broken, "changed": altered, "missing": left_out, "splits": splits}
        )
    else:
        for findings in found:
            _show(findings, task.classes)
        for split, why in left_out.items():
            click.echo(f"{split}: missing\n  {why}")
        for file in altered:
            click.echo(f"{task.directory / file} is not what was fetched: its checksum has changed")
        click.echo(f"{sum(findings.rows for findings in found):,} rows can be used, {broken:,} are broken.")
    if broken or altered or any(findings.error for findings in found):
        raise SystemExit(1)


def _show(findings: Findings, classes: Sequence[str]) -> None:
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
        _show_bars(histogram(findings.lengths))
    if findings.repeated:
        click.echo(f"  rows that repeat a text of this split: {findings.repeated:,}")
    for split, count in findings.seen.items():
        click.echo(f"  rows with a text that is in '{split}' too: {count:,}")
    for row in findings.faults:
        click.echo(f"  {row}")
    if findings.broken > len(findings.faults):
        click.echo(f"  and {findings.broken - len(findings.faults):,} more that are broken")
    if findings.error:
        click.echo(f"  {findings.error}")


def _show_bars(bars: Sequence[dict[str, int]]) -> None:
    """The histogram in numbers, and on a terminal in bars as well."""
    block, most = _block(), max(bar["count"] for bar in bars)
    names = [f"{bar['from']}-{bar['to']}" if bar["to"] > bar["from"] else f"{bar['to']}" for bar in bars]
    width, digits = max(map(len, names)), len(f"{most:,}")
    for name, bar in zip(names, bars, strict=True):
        line = block * round(_WIDTH * bar["count"] / most)
        click.echo(f"    {name:>{width}}  {bar['count']:>{digits},}  {line}".rstrip())


def _block() -> str:
    """What bars are made of: nothing in a pipe."""
    if not sys.stdout.isatty():
        return ""
    return "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
