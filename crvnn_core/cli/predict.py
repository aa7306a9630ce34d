"""``crvnn predict``: what a trained model says about texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from crvnn_core.cli.names import RUN
from crvnn_core.cli.session import (
    Session,
    counting,
    first_names,
    json_option,
    pass_session,
    plugin_option,
    print_json,
    set_option,
)
from crvnn_core.trees.formats.escapes import visible

if TYPE_CHECKING:
    from crvnn_core.inference.predictions import Prediction
    from crvnn_core.inference.trained import Trained
    from crvnn_core.interfaces import Example, InputRow

F = TypeVar("F", bound=Callable[..., Any])

_TABLES = (".csv", ".tsv", ".jsonl", ".json")  # suffixes of files that are probably not read line by line
_MOST_WARNINGS = 10  # texts with unknown tokens that are named

hard_option = click.option(
    "--hard",
    is_flag=True,
    help="Hard inference: binary decisions, n - 1 compositions of n tokens along one tree.",
)

extraction_option = click.option(
    "--extraction",
    type=click.Choice(("cumulative", "existence")),
    default="cumulative",
    show_default=True,
    help="A position is composed once one half is reached by the sum of c over the steps so far, as in the paper, or "
    "by 1 - e.",
)

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file of the form that the task reads.",
)
split_option = click.option("--split", metavar="NAME", help="A split of the task; by default its last one.")


def expect_one_source(data: Path | None, split: str | None) -> None:
    """A usage error if both ``--data`` and ``--split`` are given."""
    if data is not None and split is not None:
        raise click.UsageError("give --data or --split, not both.")


def source_examples(
    trained: Trained, data: Path | None, split: str | None, seed: int = 0
) -> tuple[str, list[Example]]:
    """The examples of ``--data`` or ``--split``, and what they are called."""
    if data is not None:
        return str(data), trained.examples(path=data)
    name = split or trained.task.splits[-1]
    return name, trained.examples(name, seed=seed)


def file_options(command: F) -> F:
    """``--file``, and how it is read."""
    options: tuple[Callable[[F], F], ...] = (
        click.option(
            "--skip-bad-rows",
            "skip",
            is_flag=True,
            help="Leave out rows of --file that cannot be read, and name them.",
        ),
        click.option("--lines", is_flag=True, help="Read --file line by line, whatever its name and form."),
        click.option(
            "--file",
            type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
            metavar="FILE",
            help="Read texts from a file of the form that the task reads, labelled or not, or with one text a line "
            "('-' for standard input); the two of a pair are separated by a tab.",
        ),
    )
    for option in options:
        command = option(command)
    return command


@click.command("predict")
@click.argument("run", type=RUN)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@file_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the predictions to a .csv or .jsonl file, in the order of the texts. In CSV, a text that a "
    "spreadsheet would take for a formula gets an apostrophe in front.",
)
@click.option("--trees", is_flag=True, help="Show the tree of each text as well.")
@set_option
@hard_option
@json_option
@plugin_option
@pass_session
def predict_command(
    session: Session,
    run: str,
    texts: tuple[str, ...],
    file: Path | None,
    lines: bool,
    skip: bool,
    out: Path | None,
    trees: bool,
    sets: tuple[str, ...],
    hard: bool,
    as_json: bool,
) -> None:
    """Ask the model in the directory RUN (or an installed one, by name) about each TEXT.

    '-' in place of a TEXT reads standard input, one text a line. A task on pairs takes the texts two by two. Where
    the file or the task tells the true label (listops and logic compute it), the answer is said to be correct or
    wrong. Tokens that the model does not know are named on standard error.

    A --file is read as the task reads its own: with the task 'from-file', the columns of texts of a CSV, TSV or JSONL
    file, which need not have labels. Any other file has one text a line. With --out each row has its line in the file,
    its other columns, its text, its true label (gold), the predicted label, the probability of each class, and the
    tokens that the model does not know.

    \b
    Examples:
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]"
      crvnn predict runs/snli "A man sleeps." "A person rests."
      crvnn predict runs/reviews --file new-reviews.csv --out predictions.csv
      cut -f2 expressions.tsv | crvnn predict listops -
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --hard --trees
    """
    from crvnn_core.inference.prediction_files import check_suffix, predict_rows, record, write_predictions

    texts, file = expect_texts(texts, file, lines=lines, skip=skip)
    if out is not None:
        if as_json:
            raise click.UsageError("--json prints the predictions; it does not go with --out.")
        check_suffix(out)
    trained = session.load(run, sets)
    rows = read_inputs(texts, file, trained, lines=lines, skip=skip)
    with counting(len(rows), "predicting") as done:
        answers = predict_rows(trained, rows, done, hard=hard)
    if as_json:
        print_json([record(row, answer) for row, answer in zip(rows, answers, strict=True)])
        return
    if out is not None:
        write_predictions(out, rows, answers, trees=trees)
        click.echo(f"wrote {len(answers):,} prediction{'s' * (len(answers) != 1)}: {out}", err=True)
    else:
        for row, answer in zip(rows, answers, strict=True):
            _show(answer, row.gold, trees)
    warn_of_unknown([answer.unknown for answer in answers], rows, file)


def expect_texts(
    texts: tuple[str, ...], file: Path | None, *, lines: bool, skip: bool
) -> tuple[tuple[str, ...], Path | None]:
    """The texts, or the file of them, which ``-`` in place of a text names as well; a usage error without either."""
    if texts == ("-",) and file is None:
        texts, file = (), Path("-")
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts, or a file of them with --file ('-' for standard input).")
    if file is None and (lines or skip):
        raise click.UsageError(
            f"{'--lines' if lines else '--skip-bad-rows'} is about a file: --file names it."
        )
    return texts, file


def read_inputs(
    texts: Sequence[str], file: Path | None, trained: Trained, *, lines: bool, skip: bool
) -> list[InputRow]:
    """The texts of the command line, two by two for a task on pairs, or the rows of a file; with true labels."""
    from crvnn_core.inference.prediction_files import well_formed, with_gold_labels
    from crvnn_core.inference.texts import pair_texts
    from crvnn_core.interfaces import InputRow

    if file is not None:
        rows, left_out = well_formed(_read(file, trained, lines), _name(file), skip=skip)
        if left_out:
            click.echo(f"crvnn: {left_out}", err=True)
        return with_gold_labels(rows, trained.task)
    questions = pair_texts(texts, trained.task)
    rows = [
        InputRow(
            texts=(question,) if isinstance(question, str) else question,
            sequences=trained.question(question, number).sequences,
        )
        for number, question in enumerate(questions)
    ]
    return with_gold_labels(rows, trained.task)


def _read(file: Path, trained: Trained, lines: bool) -> list[InputRow]:
    """The rows of a file: as the task reads it, or line by line."""
    from crvnn_core.errors import InputError
    from crvnn_core.files import open_text
    from crvnn_core.inference.prediction_files import read_file, read_lines

    if str(file) == "-":
        with click.open_file("-", encoding="utf-8-sig") as stdin:
            return read_lines(stdin, trained.task, _name(file))
    if not lines:
        try:
            rows = read_file(file, trained.task)
        except InputError as error:
            raise InputError(f"{error}\n  --lines reads the file line by line.") from None
        if rows is not None:
            return rows
        if file.suffix.lower() in _TABLES:
            click.echo(
                f"crvnn: {file}: read line by line, since the task '{trained.spec.task.name}' does not read such files",
                err=True,
            )
    with open_text(file) as opened:
        return read_lines(opened, trained.task, _name(file))


def _name(file: Path) -> str:
    return "<stdin>" if str(file) == "-" else str(file)


def place_names(rows: Sequence[InputRow], file: Path | None) -> list[str]:
    """What messages call each row: its line of the file, or its number."""
    return [
        f"{_name(file)}:{row.line}" if file is not None and row.line else f"text {number}"
        for number, row in enumerate(rows, 1)
    ]


def warn_of_unknown(unknown: Sequence[Sequence[str]], rows: Sequence[InputRow], file: Path | None) -> None:
    """Name on standard error the tokens of each row that the model does not know, of ten rows at most."""
    places = place_names(rows, file)
    found = {place: list(map(repr, tokens)) for place, tokens in zip(places, unknown, strict=True) if tokens}
    for place, names in list(found.items())[:_MOST_WARNINGS]:
        click.echo(f"crvnn: {place}: unknown to the model: {first_names(names)}", err=True)
    if len(found) > _MOST_WARNINGS:
        click.echo(f"crvnn: {len(found):,} of {len(rows):,} texts have tokens unknown to the model", err=True)


def _show(answer: Prediction, gold: str, trees: bool) -> None:
    from crvnn_core.inference.gold import verdict

    texts = (answer.text,) if isinstance(answer.text, str) else answer.text
    text = "  |  ".join(visible(each, spaces=True) for each in texts)
    label, gold = visible(answer.label, spaces=True), gold and visible(gold, spaces=True)
    judged = f"\t{verdict(label, gold)}" if gold else ""
    click.echo(f"{label}\t{answer.probabilities[answer.label]:.1%}\t{text}{judged}")
    for tree in answer.trees if trees else ():
        click.echo(f"\t{tree if tree is not None else 'this encoder shows no tree'}")
