"""``crvnn parse``: the tree of a text, written or drawn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_core.cli.predict import expect_texts, file_option, hard_option, questions
from crvnn_core.cli.session import (
    Session,
    counting,
    json_option,
    pass_session,
    plugin_option,
    print_json,
)
from crvnn_core.trees.tree import FORMATS

if TYPE_CHECKING:
    from crvnn_core.inference.trained import Trained
    from crvnn_core.trees import Tree

#: Tokens of a text; more take long and cannot be looked at.
LONGEST = 5000
_SUFFIXES = {
    ".svg": "svg",
    ".tex": "latex",
    ".json": "json",
    ".jsonl": "json",
    ".txt": "brackets",
    ".ptb": "nltk",
    ".mrg": "nltk",
}
_ONE_LINE = ("brackets", "nested", "json", "nltk")  # forms of which a file can hold several, one a line


@click.command("parse")
@click.argument("run")
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_option
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
    help="Write to a file: .svg, .tex, .json, .jsonl, .txt (brackets), .ptb or .mrg (NLTK), or what --format says.",
)
@hard_option
@json_option
@plugin_option
@pass_session
def parse_command(
    session: Session,
    run: str,
    texts: tuple[str, ...],
    file: Any,
    form: str | None,
    out: Path | None,
    hard: bool,
    as_json: bool,
) -> None:
    """Show the tree along which the model in the directory RUN (or an installed one, by name) composes each TEXT.

    A task on pairs takes the texts two by two, and gives two trees for each. Several trees go into one file where each
    is one line (brackets, nested, json, nltk; as a list in a .json), and otherwise into numbered files: tree.svg
    becomes tree-1.svg, tree-2.svg ... Tokens that the model does not know are dashed in drawings, and named on standard
    error. A text may have up to 5,000 tokens.

    \b
    Examples:
      crvnn parse listops "[MAX 2 9 [MIN 4 7 ] 0 ]"
      crvnn parse listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --out tree.svg
      crvnn parse runs/sst --file sentences.txt --format nltk
      crvnn parse runs/snli "A man sleeps." "A person rests." --json
    """
    from crvnn_core.inference.trained import load

    expect_texts(texts, file)
    if as_json and (form is not None or out is not None):
        raise click.UsageError("--json prints everything; it goes with neither --format nor --out.")
    chosen = form or _form_of(out)
    trained = load(run, session.catalog)
    asked = questions(texts, file, trained)
    found = _trees(trained, asked, run, hard)
    strange = [[trained.unknown(tree.tokens) for tree in trees] for trees in found]
    if as_json:
        rows = zip(asked, found, strange, strict=True)
        print_json([{"text": text, "trees": list(map(_plain, trees, odd))} for text, trees, odd in rows])
        return
    _note_unknown(found, strange)
    written = [
        tree.to(chosen, unknown=odd).rstrip("\n")
        for trees, odds in zip(found, strange, strict=True)
        for tree, odd in zip(trees, odds, strict=True)
    ]
    if out is None:
        click.echo(("\n" if chosen in _ONE_LINE else "\n\n").join(written))
    else:
        _keep(out, written, chosen)


def _form_of(out: Path | None) -> str:
    """The form that a file's name, or where the output goes, asks for."""
    if out is None:
        return "terminal" if _on_terminal() else "brackets"
    if out.suffix.lower() not in _SUFFIXES:
        raise click.UsageError(
            f"--out {out}: the suffix says no form of trees. Known are {' '.join(_SUFFIXES)}; --format says it too."
        )
    return _SUFFIXES[out.suffix.lower()]


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _trees(
    trained: Trained, asked: Sequence[str | tuple[str, str]], run: str, hard: bool
) -> list[tuple[Tree, ...]]:
    from crvnn_core.errors import CrvnnError, InputError

    examples = [trained.question(text, number) for number, text in enumerate(asked)]
    for number, example in enumerate(examples, 1):
        longest = max(map(len, example.sequences))
        if longest > LONGEST:
            raise InputError(f"text {number} has {longest:,} tokens; up to {LONGEST:,} can be parsed")
    try:
        with counting(len(examples), "parsing") as done:
            return trained.trees(examples, done, hard=hard)
    except CrvnnError as error:
        raise CrvnnError(f"{run}: {error}") from None


def _plain(tree: Tree, unknown: frozenset[int]) -> dict[str, Any]:
    return {"brackets": str(tree), **tree.plain(), "unknown": sorted(unknown)}


def _note_unknown(found: Sequence[Sequence[Tree]], strange: Sequence[Sequence[frozenset[int]]]) -> None:
    for number, (trees, odds) in enumerate(zip(found, strange, strict=True), 1):
        names = [
            repr(tree.tokens[place]) for tree, odd in zip(trees, odds, strict=True) for place in sorted(odd)
        ]
        if names:
            more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
            click.echo(f"crvnn: text {number}: unknown to the model: {', '.join(names[:10])}{more}", err=True)


def _keep(out: Path, written: Sequence[str], form: str) -> None:
    """One file, or several with numbers in their names, whole or not at all."""
    from crvnn_core.files import write_atomically

    if form == "json" and out.suffix.lower() == ".json" and len(written) > 1:
        paths = {out: "[\n" + ",\n".join(written) + "\n]"}  # such a file holds one value
    elif len(written) == 1 or form in _ONE_LINE:
        paths = {out: "\n".join(written)}
    else:
        paths = {
            out.with_name(f"{out.stem}-{number}{out.suffix}"): text for number, text in enumerate(written, 1)
        }
    for path, text in paths.items():
        write_atomically(path, f"{text}\n")
    first, *others = paths
    named = f"{first} ... {others[-1].name}" if others else str(first)
    click.echo(f"wrote {len(written)} tree{'s' * (len(written) > 1)}: {named}", err=True)
