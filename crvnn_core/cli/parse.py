"""``crvnn parse``: the tree of a text, written or drawn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.names import RUN
from crvnn_core.cli.predict import (
    expect_texts,
    extraction_option,
    file_options,
    hard_option,
    place_names,
    read_inputs,
    warn_of_unknown,
)
from crvnn_core.cli.session import (
    Session,
    counting,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    set_option,
)
from crvnn_core.trees.formats import FORMAT_BY_SUFFIX, FORMATS, ONE_LINE
from crvnn_core.trees.formats.escapes import visible

if TYPE_CHECKING:
    from crvnn_core.trees.extraction import Extraction

_MOST_SAID = 10  # texts of which it is said whether label and tree are right, and which conflicts there are


@click.command("parse")
@click.argument("run", type=RUN)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="How to write trees; by default as the suffix of --out says, drawn on a terminal, in brackets in a pipe.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to a file, in the format of --format or of its suffix: "
    + ", ".join(f"{suffix} ({form})" for suffix, form in FORMAT_BY_SUFFIX.items())
    + ".",
)
@set_option
@hard_option
@extraction_option
@json_option
@plugin_option
@pass_session
def parse_command(
    session: Session,
    run: str,
    texts: tuple[str, ...],
    file: Path | None,
    lines: bool,
    skip: bool,
    form: str | None,
    out: Path | None,
    sets: tuple[str, ...],
    hard: bool,
    extraction: Extraction,
    as_json: bool,
) -> None:
    """Show the tree along which the model in the directory RUN (or an installed one, by name) composes each TEXT.

    '-' in place of a TEXT reads standard input, one text a line. A task on pairs takes the texts two by two, and
    gives two trees for each. Several trees go into one file where each is one line (as in brackets; as a list in a
    .json), and otherwise into numbered files: tree.svg becomes tree-1.svg, tree-2.svg and so on. Tokens that the
    model does not know are dashed in drawings, and named on standard error. There it also says, where the task can
    tell, whether the predicted label is correct and how far the tree is the gold one; and where a node of the tree
    did not get into the sentence vector, in a conflict, which drawings mark. A text may have up to 5,000 tokens.

    \b
    Examples:
      crvnn parse listops "[MAX 2 9 [MIN 4 7 ] 0 ]"
      crvnn parse listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --out tree.svg
      crvnn parse runs/sst --file sentences.txt --format nltk
      crvnn parse runs/snli "A man sleeps." "A person rests." --json
    """
    from attrs import evolve

    from crvnn_core.errors import CrvnnError, InputError
    from crvnn_core.inference.texts import as_text
    from crvnn_core.interfaces import Example
    from crvnn_core.trees.parsing import format_of, parse, write_parses

    texts, file = expect_texts(texts, file, lines=lines, skip=skip)
    if as_json and (form is not None or out is not None):
        raise click.UsageError("--json prints everything; it goes with neither --format nor --out.")
    default = "terminal" if _on_terminal() else "brackets"
    chosen = form or (default if out is None else format_of(out))
    trained = evolve(session.load(run, sets), extraction=extraction)
    rows = read_inputs(texts, file, trained, lines=lines, skip=skip)
    try:
        with counting(len(rows), "parsing") as done:
            found = parse(trained, [Example(row.sequences, 0) for row in rows], hard=hard, done=done)
    except InputError:  # about a text, not about the run
        raise
    except CrvnnError as error:
        raise CrvnnError(f"{run}: {error}") from None
    found = [
        evolve(each, text=as_text(row.texts), gold=row.gold) for row, each in zip(rows, found, strict=True)
    ]
    if as_json:
        print_json([each.plain() for each in found])
        return
    warn_of_unknown([each.unknown_tokens for each in found], rows, file)
    places = place_names(rows, file)
    _say([each.verdict for each in found], places)
    _say([each.conflicts for each in found], places)
    trees = [tree for each in found for tree in each.written(chosen)]
    if out is None:
        click.echo(("\n" if chosen in ONE_LINE else "\n\n").join(trees))
        return
    first, *others = write_parses(found, out, chosen)
    named = f"{first} ... {others[-1].name}" if others else str(first)
    click.echo(f"wrote {len(trees)} tree{'s' * (len(trees) > 1)}: {named}", err=True)


def _say(words: Sequence[str], places: Sequence[str]) -> None:
    """Say on standard error what is known of the first texts: what is right about them, and conflicts."""
    known = [(place, each) for place, each in zip(places, words, strict=True) if each]
    for place, each in known[:_MOST_SAID]:
        click.echo(f"crvnn: {place}: {visible(each, spaces=True)}", err=True)
    if len(known) > _MOST_SAID:
        click.echo("crvnn: ... and so on: --json has them all", err=True)


def _on_terminal() -> bool:
    return sys.stdout.isatty()
