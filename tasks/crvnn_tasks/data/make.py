"""``crvnn data make``: files of made-up rows, the same bytes from the same seed. Nothing here imports torch."""

from __future__ import annotations

import contextlib
import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import click
from attrs import frozen

from crvnn_core.cli.session import json_option, print_json
from crvnn_core.errors import CrvnnError
from crvnn_core.files import replacing
from crvnn_tasks.listops.language import bracketed, evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions
from crvnn_tasks.logic.language import MOST_OPERATIONS, pairs, row_text
from crvnn_tasks.logic.language import operations as count_operations

F = TypeVar("F", bound=Callable[..., Any])
#: A row's label, its text as it is written, and the tokens of each of its sequences.
Made = tuple[str, str, Sequence[Sequence[str]]]

_USUAL = 100  # tokens: what most experiments are limited to


@frozen
class Summary:
    """What was written."""

    lengths: Counter[int]  # sequences of so many tokens
    labels: Counter[str]

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.labels.total()

    @property
    def mean(self) -> float:
        """Tokens of a sequence."""
        return sum(length * count for length, count in self.lengths.items()) / self.lengths.total()

    @property
    def median(self) -> float:
        """Tokens of a sequence."""
        total = self.lengths.total()
        return (self._at((total - 1) // 2) + self._at(total // 2)) / 2

    @property
    def usual(self) -> float:
        """The share of sequences of at most 100 tokens."""
        few = sum(count for length, count in self.lengths.items() if length <= _USUAL)
        return few / self.lengths.total()

    def _at(self, place: int) -> int:
        """The length at a place in their order."""
        for length in sorted(self.lengths):
            place -= self.lengths[length]
            if place < 0:
                return length
        raise IndexError(place)

    def plain(self) -> dict[str, Any]:
        """For machines."""
        tokens = {"mean": self.mean, "median": self.median, f"at_most_{_USUAL}": self.usual}
        return {"rows": self.rows, "tokens": tokens, "labels": dict(sorted(self.labels.items()))}

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows; tokens: mean {self.mean:.1f}, median {self.median:g}, "
            f"{self.usual:.1%} at most {_USUAL}"
        )


@click.group("make")
def make() -> None:
    """Make rows of a language that has a recipe."""


def _shared_options(command: F) -> F:
    for option in (
        json_option,
        click.option(
            "--out",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Where to write; packed if it ends in .gz. By default, to standard output.",
        ),
        click.option(
            "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of everything random."
        ),
        click.option(
            "--rows",
            default=100_000,
            show_default=True,
            type=click.IntRange(min=1),
            help="How many, all different.",
        ),
    ):
        command = option(command)
    return command


@make.command("listops")
@_shared_options
@click.option(
    "--min-tokens", default=0, show_default=True, type=click.IntRange(min=0), help="Of an expression."
)
@click.option(
    "--max-tokens",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Of an expression; 0 for no limit.",
)
@click.option("--min-arguments", default=2, show_default=True, type=int, help="Of an operator.")
@click.option("--max-arguments", default=5, show_default=True, type=int, help="Of an operator.")
@click.option(
    "--max-depth", default=20, show_default=True, type=int, help="From here on there are only digits."
)
@click.option(
    "--operator-probability", default=0.25, show_default=True, type=float, help="Where a digit could stand."
)
@click.option(
    "--split",
    type=click.Choice(["train", "dev", "test"]),
    help="Only what the task 'listops' has in this split, so that rows for testing are never trained on.",
)
@click.option(
    "--brackets", is_flag=True, help="Write round parentheses around all parts, as the published files do."
)
def make_listops(
    rows: int, seed: int, out: Path | None, as_json: bool, split: str | None, brackets: bool, **recipe: Any
) -> None:
    """Make ListOps expressions: rows of an answer, a tab and an expression.

    The defaults are those of the published set, of all lengths.

    \b
    Examples:
      crvnn data make listops --rows 100000 --seed 0 --out listops.tsv
      crvnn data make listops --rows 1000 --min-tokens 900 --max-tokens 1000 --split test
    """
    try:
        settings = Recipe(**recipe)
    except ValueError as error:
        raise click.UsageError(re.sub(r"\b([a-z]+)_([a-z]+)\b", r"--\1-\2", str(error))) from None
    written = bracketed if brackets else " ".join
    found = (
        (str(evaluate(tokens)), written(tokens), (tokens,))
        for tokens in expressions(settings, f"listops {seed}", split or "")
    )
    _finish(found, rows, seed, out, as_json)


def _as_range(ctx: click.Context, parameter: click.Parameter, value: str) -> range:
    """``7`` or ``0-6``."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", value.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not 0 <= first <= last <= MOST_OPERATIONS:
        raise click.BadParameter(
            f"'{value}' is neither a number from 0 to {MOST_OPERATIONS} nor a range such as 0-6."
        )
    return range(first, last + 1)


@make.command("logic")
@_shared_options
@click.option(
    "--operations",
    default=f"0-{MOST_OPERATIONS}",
    show_default=True,
    metavar="N[-M]",
    callback=_as_range,
    help="Of the longer sentence; 12 stands for more, too.",
)
def make_logic(rows: int, seed: int, out: Path | None, as_json: bool, operations: range) -> None:
    """Make pairs of logical sentences: rows of a relation and two sentences, with tabs between them.

    They are made as the published ones were.

    \b
    Examples:
      crvnn data make logic --rows 100000 --operations 0-6 --out train.tsv
      crvnn data make logic --rows 2000 --operations 7 --seed 1 --out test7.gz
    """
    found = (
        (label, row_text(pair), pair)
        for label, pair in pairs(f"logic {seed}", lambda pair: count_operations(pair) in operations)
    )
    _finish(found, rows, seed, out, as_json)


def _finish(found: Iterable[Made], rows: int, seed: int, out: Path | None, as_json: bool) -> None:
    """Write the rows, and say what was written."""
    if as_json and out is None:
        raise click.UsageError(
            "--json needs --out FILE: standard output cannot hold both the rows and the result."
        )
    summary = write_rows(found, rows, out)
    if as_json:
        print_json({"file": str(out), "seed": seed, **summary.plain()})
    else:
        click.echo(f"{f'{out}: ' if out else ''}{summary}", err=out is None)


def write_rows(found: Iterable[Made], rows: int, out: Path | None) -> Summary:
    """Write so many rows, whole or, into a file, not at all."""
    lengths: Counter[int] = Counter()
    labels: Counter[str] = Counter()
    with _opened(out) as file:
        for label, text, sequences in _watched(islice(found, rows), rows, out):
            file.write(f"{label}\t{text}\n".encode())
            labels[label] += 1
            lengths.update(map(len, sequences))
        made = labels.total()
        if made < rows:
            raise CrvnnError(
                f"there seem to be only {made:,} different rows like this; ask for --rows {made}, or others"
            )
    return Summary(lengths, labels)


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[IO[bytes]]:
    """Where rows go: standard output, or a file that appears when all of them are there."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(out) as path, path.open("wb") as file:
        if out.suffix != ".gz":
            yield file
        else:  # without a name or a time, equal rows are equal bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield packed  # type: ignore[misc]


def _watched(found: Iterable[Made], rows: int, out: Path | None) -> Iterator[Made]:
    """The rows, with a bar on a terminal unless they go there themselves; in a pipe, silence."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or (out is None and sys.stdout.isatty()):
        yield from found
        return
    columns = (TextColumn("making rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=rows)
        for number, made in enumerate(found, 1):
            yield made
            if number % 100 == 0:
                progress.update(bar, completed=number)
