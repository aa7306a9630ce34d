"""``crvnn predict``: the labels, probabilities and trees that a trained model gives texts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crvnn_core.cli.session import (
    FILE,
    RUN,
    Session,
    counting,
    extraction_option,
    first_names,
    hard_option,
    json_option,
    pass_session,
    print_json,
    set_option,
)
from crvnn_core.trees.formats import FORMAT_BY_SUFFIX, FORMATS, ONE_LINE
from crvnn_core.trees.formats.escapes import visible

if TYPE_CHECKING:
    from crvnn_core.inference.prediction_files import Answer
    from crvnn_core.inference.trained import Trained
    from crvnn_core.interfaces import InputRow
    from crvnn_core.trees.extraction import Extraction

PREDICTED = (".csv", ".jsonl")  # suffixes of files that predictions are written to
_TABLES = (".csv", ".tsv", ".jsonl", ".json")  # suffixes of files that are probably not read line by line
_MOST_NAMED = 10  # texts of which messages say something


@click.command("predict")
@click.argument("run", type=RUN)
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "--file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Read texts from a file of the form that the task reads, labelled or not, or with one text a line "
    "('-' for standard input); the two of a pair are separated by a tab.",
)
@click.option("--lines", is_flag=True, help="Read --file line by line, whatever its name and form.")
@click.option(
    "--skip-bad-rows",
    "skip",
    is_flag=True,
    help="Leave out rows of --file that cannot be read, and name them.",
)
@click.option(
    "--out",
    type=FILE,
    metavar="FILE",
    help="Write to a file: predictions to a .csv or .jsonl, in the order of the texts; trees to a "
    + ", ".join(f"{suffix} ({form})" for suffix, form in FORMAT_BY_SUFFIX.items() if suffix not in PREDICTED)
    + ". In CSV, a text that a spreadsheet would take for a formula gets an apostrophe in front.",
)
@click.option("--trees", is_flag=True, help="Show the tree of each text as well.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Write the trees alone, in this format; '--out tree.svg' does so in that of the suffix.",
)
@set_option
@hard_option
@extraction_option
@json_option
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
    form: str | None,
    sets: tuple[str, ...],
    hard: bool,
    extraction: Extraction,
    as_json: bool,
) -> None:
    """Predict the label of each TEXT with the model in the directory RUN (or an installed one, by name).

    '-' in place of a TEXT reads standard input, one text a line. A task on pairs takes the texts two by two. Where
    the file or the task has the true label (listops and logic compute it), the prediction is said to be correct or
    wrong. Tokens that the model does not know are named on standard error.

    A --file is read as the task reads its own: with the task 'from-file', the columns of texts of a CSV, TSV or JSONL
    file, which need not have labels. Any other file has one text a line. With --out each row has its line in the file,
    its other columns, its true label (gold), its text, the predicted label, the probability of each class, and the
    tokens that the model does not know.

    --trees prints the tree along which the model composes a text of up to 5,000 tokens, two of a pair: drawn on a
    terminal, in brackets in a pipe. Standard error says how many constituents of the gold tree it has, and which nodes
    did not get into the sentence vector, in a conflict, which drawings mark. With --format, or with the suffix of a
    format in --out, the trees are written alone: into one file where each is one line (as in brackets; as a list in a
    .json), and otherwise into numbered files, as tree.svg becomes tree-1.svg, tree-2.svg and so on.

    \b
    Examples:
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]"
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --hard --trees
      crvnn predict listops "[MAX 2 9 [MIN 4 7 ] 0 ]" --out tree.svg
      crvnn predict runs/snli "A man sleeps." "A person rests." --json
      crvnn predict runs/sst --file sentences.txt --trees --format nltk
      crvnn predict runs/reviews --file new-reviews.csv --out predictions.csv
      cut -f2 expressions.tsv | crvnn predict listops -
    """
    from attrs import evolve

    from crvnn_core.errors import CrvnnError, InputError
    from crvnn_core.inference.prediction_files import answer, check_lengths, write_predictions
    from crvnn_core.interfaces import Example

    if texts == ("-",) and file is None:
        texts, file = (), Path("-")
    if bool(texts) == (file is not None):
        raise click.UsageError("give texts, or a file of them with --file ('-' for standard input).")
    if file is None and (lines or skip):
        option = "--lines" if lines else "--skip-bad-rows"
        raise click.UsageError(f"{option} is about a file: --file names it.")
    if as_json and (form is not None or out is not None):
        raise click.UsageError("--json prints everything; it goes with neither --format nor --out.")
    if form is None and out is not None and out.suffix.lower() not in PREDICTED:
        form = _form_of(out)
    trained = evolve(session.load(run, sets), extraction=extraction)
    rows = _read_file(file, trained, lines, skip) if file is not None else _read_texts(texts, trained)
    asked = trees or form is not None
    if asked:
        check_lengths(rows)
    with counting(len(rows), "predicting") as done:
        try:
            examples = [Example(row.sequences, 0) for row in rows]
            predictions = trained.predict(examples, done, hard=hard)
            pairs = zip(rows, predictions, strict=True)
            answers = [answer(trained, row, prediction, trees=asked) for row, prediction in pairs]
        except InputError:  # about a text, not about the run
            raise
        except CrvnnError as error:
            raise CrvnnError(f"{run}: {error}") from None
    if as_json:
        print_json([each.plain() | (each.plain_trees() if asked else {}) for each in answers])
        return
    places = [
        f"{_name(file)}:{row.line}" if file is not None and row.line else f"text {number}"
        for number, row in enumerate(rows, 1)
    ]
    unknown = [first_names(list(map(repr, each.prediction.unknown))) for each in answers]
    _tell(
        places,
        [names and f"unknown to the model: {names}" for names in unknown],
        "have tokens unknown to the model",
    )
    if asked:
        # Trees alone have no labels.
        labels = [
            f"label {each.prediction.label}, {each.verdict}. " if form and each.verdict else ""
            for each in answers
        ]
        judged = [f"{label}{each.agreements}".rstrip() for label, each in zip(labels, answers, strict=True)]
        _tell(places, judged, "have a gold label or tree")
        _tell(places, [each.conflicts for each in answers], "have conflicts")
    if form is not None:
        _write_trees([tree for each in answers for tree in each.written(form)], form, out)
    elif out is not None:
        write_predictions(out, answers, trees=trees)
        click.echo(f"wrote {len(rows):,} prediction{'s' * (len(rows) != 1)}: {out}", err=True)
    else:
        for each in answers:
            _show(each, trees)


def _form_of(out: Path) -> str:
    """The format of trees that the suffix of a file stands for."""
    from crvnn_core.errors import InputError

    if out.suffix.lower() not in FORMAT_BY_SUFFIX:
        known = " ".join(suffix for suffix in FORMAT_BY_SUFFIX if suffix not in PREDICTED)
        raise InputError(
            f"{out}: predictions are written to files that end in {' or '.join(PREDICTED)}, and trees to {known}; "
            "with --format, trees go to a file of any name"
        )
    return FORMAT_BY_SUFFIX[out.suffix.lower()]


def _write_trees(trees: Sequence[str], form: str, out: Path | None) -> None:
    """Trees alone, printed or written to files."""
    from crvnn_core.inference.prediction_files import write_trees

    if out is None:
        click.echo(("\n" if form in ONE_LINE else "\n\n").join(trees))
        return
    first, *others = write_trees(trees, out, form)
    named = f"{first} ... {others[-1].name}" if others else str(first)
    click.echo(f"wrote {len(trees)} tree{'s' * (len(trees) > 1)}: {named}", err=True)


def _read_texts(texts: Sequence[str], trained: Trained) -> list[InputRow]:
    """The texts of the command line, two by two for a task on pairs."""
    from crvnn_core.inference.predictions import pair_texts
    from crvnn_core.interfaces import InputRow

    rows = []
    for number, text in enumerate(pair_texts(texts, trained.task)):
        sequences = trained.example(text, number).sequences
        label = trained.gold_label(sequences) or ""
        rows.append(InputRow(0, (text,) if isinstance(text, str) else text, sequences, label))
    return rows


def _read_file(file: Path, trained: Trained, lines: bool, skip: bool) -> list[InputRow]:
    """The rows of a file, with their true labels: those of the file, else what the task computes, if it can."""
    from attrs import evolve

    from crvnn_core.inference.prediction_files import well_formed

    rows, left_out = well_formed(_rows(file, trained, lines), _name(file), skip=skip)
    if left_out:
        click.echo(f"crvnn: {left_out}", err=True)
    return [row if row.gold else evolve(row, gold=trained.gold_label(row.sequences) or "") for row in rows]


def _rows(file: Path, trained: Trained, lines: bool) -> list[InputRow]:
    """The rows of a file, malformed ones too: as the task reads it, or line by line."""
    from crvnn_core.errors import InputError
    from crvnn_core.files import open_text
    from crvnn_core.inference.prediction_files import read_lines

    if str(file) == "-":
        with click.open_file("-", encoding="utf-8-sig") as stdin:
            return read_lines(stdin, trained.task, _name(file))
    if not lines:
        try:
            rows = trained.task.inputs(file)
            if rows is not None:
                return list(rows)
        except InputError as error:
            raise InputError(f"{error}\n  --lines reads the file line by line.") from None
        if file.suffix.lower() in _TABLES:
            click.echo(
                f"crvnn: {file}: read line by line, since the task '{trained.spec.task.name}' does not read such files",
                err=True,
            )
    with open_text(file) as opened:
        return read_lines(opened, trained.task, _name(file))


def _name(file: Path) -> str:
    return "<stdin>" if str(file) == "-" else str(file)


def _tell(places: Sequence[str], messages: Sequence[str], what: str) -> None:
    """Say on standard error what there is to say of rows, of ten at most, and of how many."""
    known = [(place, each) for place, each in zip(places, messages, strict=True) if each]
    for place, each in known[:_MOST_NAMED]:
        click.echo(f"crvnn: {place}: {visible(each, spaces=True)}", err=True)
    if len(known) > _MOST_NAMED:
        click.echo(f"crvnn: {len(known):,} of {len(places):,} texts {what}; --json has them all", err=True)


def _show(answer: Answer, trees: bool) -> None:
    """A line about a text: its label, its probability, whether it is correct; and its trees, if asked for."""
    found = answer.prediction
    text = "  |  ".join(visible(each, spaces=True) for each in answer.row.texts)
    judged = f"\t{visible(answer.verdict, spaces=True)}" if answer.verdict else ""
    click.echo(f"{visible(found.label, spaces=True)}\t{found.probabilities[found.label]:.1%}\t{text}{judged}")
    for tree in answer.written("terminal" if _on_terminal() else "brackets") if trees else ():
        click.echo(tree if _on_terminal() else f"\t{tree}")


def _on_terminal() -> bool:
    return sys.stdout.isatty()
