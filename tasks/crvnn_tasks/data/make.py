"""``crvnn data make``: files of generated rows, the same bytes for the same seed. Does not import torch."""

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
from crvnn_core.display.progress import counting
from crvnn_core.errors import CrvnnError
from crvnn_core.files import replacing
from crvnn_tasks.data.survey import summary
from crvnn_tasks.listops.language import bracketed, evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions
from crvnn_tasks.logic.language import MOST_OPERATIONS, pairs, row_text
from crvnn_tasks.logic.language import operations as count_operations

F = TypeVar("F", bound=Callable[..., Any])
#: A generated row: its label, its text as written to the file, and the tokens of each of its sequences.
Made = tuple[str, str, Sequence[Sequence[str]]]

_USUAL = 100  # tokens: the limit of most experiments


@frozen
class Summary:
    """Statistics of the rows that were written."""

    lengths: Counter[int]  # sequences of so many tokens
    labels: Counter[str]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.labels.total()

    def tokens(self) -> dict[str, float]:
        """Mean and median number of tokens of a sequence, and the share of those of at most 100."""
        sizes = summary(self.lengths)
        few = sum(count for length, count in self.lengths.items() if length <= _USUAL)
        share = few / self.lengths.total()
        return {"mean": sizes["mean"], "median": sizes["median"], f"at_most_{_USUAL}": share}

    def plain(self) -> dict[str, Any]:
        """The statistics as a JSON object."""
        return {"rows": self.rows, "tokens": self.tokens(), "labels": dict(sorted(self.labels.items()))}

    def __str__(self) -> str:
        mean, median, usual = self.tokens().values()
        return f"{self.rows:,} rows; tokens: mean {mean:.1f}, median {median:g}, {usual:.1%} at most {_USUAL}"


@click.group("make")
def make() -> None:
    """Generate rows of ListOps or propositional logic."""


def _shared_options(command: F) -> F:
    many, seeds = click.IntRange(min=1), click.IntRange(min=0)
    file = click.Path(path_type=Path, dir_okay=False)
    written = "File to write, gzipped if it ends in .gz; standard output by default."
    command = click.option("--out", type=file, metavar="FILE", help=written)(json_option(command))
    command = click.option(
        "--seed", default=0, show_default=True, type=seeds, help="Seed of the random generator."
    )(command)
    return click.option(
        "--rows", default=100_000, show_default=True, type=many, help="Number of rows, all distinct."
    )(command)


_SHAPE = {
    "min_tokens": "Fewest tokens of an expression.",
    "max_tokens": "Most tokens of an expression; 0 for no limit.",
    "min_arguments": "Fewest arguments of an operator.",
    "max_arguments": "Most arguments of an operator.",
    "max_depth": "Depth at which all arguments are digits.",
    "operator_probability": "Of an operator rather than a digit as an argument.",
}


def _shape_options(command: F) -> F:
    """An option for each of these settings of a ``Recipe``, with its default."""
    for name, text in reversed(_SHAPE.items()):
        default = getattr(Recipe(), name)
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, default=default, show_default=True, type=type(default), help=text)(
            command
        )
    return command


@make.command("listops", short_help="Generate ListOps expressions.")
@_shared_options
@_shape_options
@click.option(
    "--split",
    type=click.Choice(["train", "dev", "test"]),
    help="Only expressions of this split of the task 'listops'; the splits are disjoint.",
)
@click.option("--brackets", is_flag=True, help="Write the round parentheses of the published files.")
def make_listops(
    rows: int, seed: int, out: Path | None, as_json: bool, split: str | None, brackets: bool, **recipe: Any
) -> None:
    """Generate ListOps expressions: rows of a label, a tab and an expression.

    The defaults are those of the published set, of all lengths.

    \b
    Examples:
      crvnn data make listops --rows 100000 --seed 0 --out listops.tsv
      crvnn data make listops --rows 99 --min-tokens 900 --max-tokens 1000
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


@make.command("logic", short_help="Generate pairs of logical sentences.")
@_shared_options
@click.option(
    "--operations",
    default=f"0-{MOST_OPERATIONS}",
    show_default=True,
    metavar="N[-M]",
    callback=_as_range,
    help="Number of operations of the longer sentence; 12 stands for 12 or more.",
)
def make_logic(rows: int, seed: int, out: Path | None, as_json: bool, operations: range) -> None:
    """Generate pairs of logical sentences, distributed as the published ones: rows of a relation, a tab, a sentence,
    a tab and a sentence.

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
    """Write the rows, and print their statistics."""
    if as_json and out is None:
        raise click.UsageError(
            "--json needs --out FILE: standard output cannot have both the rows and the result."
        )
    written = write_rows(found, rows, out)
    if as_json:
        print_json({"file": str(out), "seed": seed, **written.plain()})
    else:
        click.echo(f"{f'{out}: ' if out else ''}{written}", err=out is None)


def write_rows(found: Iterable[Made], rows: int, out: Path | None) -> Summary:
    """Write ``rows`` rows and return their statistics; a file is written completely or not at all."""
    lengths: Counter[int] = Counter()
    labels: Counter[str] = Counter()
    with _opened(out) as file:
        for label, text, sequences in _with_progress(islice(found, rows), rows, out):
            file.write(f"{label}\t{text}\n".encode())
            labels[label] += 1
            lengths.update(map(len, sequences))
        made = labels.total()
        if made < rows:
            raise CrvnnError(
                f"only {made:,} distinct rows of this kind were found; use --rows {made}, or other settings"
            )
    return Summary(lengths, labels)


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears under its name when it is complete."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(out) as path, path.open("wb") as file:
        if out.suffix != ".gz":
            yield file
        else:  # no name and no time in the header, so that equal rows are equal bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield packed  # type: ignore[misc]


def _with_progress(found: Iterable[Made], rows: int, out: Path | None) -> Iterator[Made]:
    """The rows, with their progress unless they are printed on a terminal."""
    if out is None and sys.stdout.isatty():
        yield from found
        return
    with counting(rows, "generating rows") as done:
        for number, made in enumerate(found, 1):
            yield made
            if number % 100 == 0:
                done(100)
