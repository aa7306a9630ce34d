"""Files of texts to predict, and the CSV or JSON Lines file that predictions are written to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from crvnn_core.display.tables import write_csv
from crvnn_core.errors import InputError
from crvnn_core.files import replacing
from crvnn_core.inference.predictions import Prediction
from crvnn_core.inference.texts import gold_label
from crvnn_core.interfaces import InputRow, Task

#: Suffixes of files that predictions are written to.
SUFFIXES = (".csv", ".jsonl")
_SHOWN = 10  # malformed rows that are named
_OPTIONAL = ("line", "gold")  # left out where unknown


def read_file(path: Path, task: Task) -> list[InputRow] | None:
    """The rows of a file of the form that a task reads, the malformed ones too; ``None`` if it has another form."""
    found = task.inputs(path)
    return None if found is None else list(found)


def read_lines(lines: Iterable[str], task: Task, name: str) -> list[InputRow]:
    """The lines of a file, each of them a text; the two of a pair have a tab between them.

    :param lines: an open file, say.
    :param name: of the file, for error messages.
    """
    try:
        rows = [line.rstrip("\r\n") for line in lines]
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: this is not UTF-8 text: {error}") from None
    return [_row(number, row, task) for number, row in enumerate(rows, 1)]


def _row(number: int, line: str, task: Task) -> InputRow:
    if not line.strip():
        return InputRow(number, fault="the line is empty")
    texts = tuple(line.split("\t", 1)) if task.arity == 2 else (line,)
    if len(texts) != task.arity or not all(text.strip() for text in texts):
        return InputRow(number, fault="expected two texts with a tab between them")
    try:
        sequences = tuple(tuple(task.tokenize(text)) for text in texts)
    except InputError as error:
        return InputRow(number, fault=str(error))
    if not all(sequences):
        return InputRow(number, fault="there are no tokens in the text")
    return InputRow(number, texts, sequences)


def well_formed(rows: Sequence[InputRow], name: str, *, skip: bool = False) -> tuple[list[InputRow], str]:
    """The rows that can be predicted, and a message about the others.

    :param name: of the file.
    :param skip: leave out malformed rows; otherwise they are an ``InputError``.
    """
    faults = [f"{name}:{row.line}: {row.fault}" for row in rows if row.fault]
    kept = [row for row in rows if not row.fault]
    more = f"\n... and {len(faults) - _SHOWN:,} more such rows" if len(faults) > _SHOWN else ""
    listed = "\n".join(faults[:_SHOWN]) + more
    if not rows:
        raise InputError(f"{name}: there are no texts in it")
    if faults and not skip:
        raise InputError(f"{listed}\n  --skip-bad-rows leaves such rows out.")
    if not kept:
        raise InputError(f"{listed}\n  There is no other row.")
    left_out = f"{name}: left out {len(faults):,} of {len(rows):,} rows:\n{listed}" if faults else ""
    return kept, left_out


def with_gold_labels(rows: Sequence[InputRow], task: Task) -> list[InputRow]:
    """Well-formed rows with their true labels: those of the file, else what the task computes, if it can."""
    return [row if row.gold else evolve(row, gold=gold_label(task, row.sequences) or "") for row in rows]


def record(row: InputRow, answer: Prediction) -> dict[str, Any]:
    """A row and its prediction, for JSON: its line, its other columns, the prediction, and its true label, if known.

    A column of the row that has the name of one of these gets the prefix ``input_``.
    """
    judged = {"gold": row.gold, "correct": answer.label == row.gold} if row.gold else {}
    own = {"line": row.line, **judged, **answer.plain()}
    return {name: value for name, value in _with_columns(row, own).items() if value or name not in _OPTIONAL}


def check_suffix(path: Path) -> None:
    """An error unless predictions can be written to a file of this name."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: predictions are written to files that end in {' or '.join(SUFFIXES)}")


def write_predictions(
    path: Path, rows: Sequence[InputRow], answers: Sequence[Prediction], *, trees: bool = False
) -> None:
    """Write rows and their predictions to a CSV or JSON Lines file, in order; it is replaced as a whole.

    :param trees: add the trees to a CSV file; JSON Lines always have them.
    """
    check_suffix(path)
    pairs = zip(rows, answers, strict=True)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".jsonl":
            file.writelines(json.dumps(record(*pair), ensure_ascii=False) + "\n" for pair in pairs)
        else:
            table = [_table_row(*pair, trees) for pair in pairs]
            names = dict.fromkeys(name for row in table for name in row)
            empty = {name for name in _OPTIONAL if not any(row[name] for row in table)}
            write_csv(file, [name for name in names if name not in empty], table)


def _table_row(row: InputRow, answer: Prediction, trees: bool) -> dict[str, Any]:
    """A row of a CSV file: the probability of each class has a column of its own."""
    own = {
        "line": row.line,
        **_numbered("text", row.texts),
        "gold": row.gold,
        "label": answer.label,
        **{f"p_{name}": f"{value:.6f}" for name, value in answer.probabilities.items()},
        "unknown": " ".join(answer.unknown),
        **(_numbered("tree", [str(tree or "") for tree in answer.trees]) if trees else {}),
    }
    return {name: _cell(value) for name, value in _with_columns(row, own).items()}


def _with_columns(row: InputRow, own: dict[str, Any]) -> dict[str, Any]:
    """What is written about a row, with its other columns after its line."""
    columns = {f"input_{name}" if name in own else name: value for name, value in row.columns.items()}
    return {"line": own["line"], **columns, **own}


def _numbered(name: str, values: Sequence[str]) -> dict[str, str]:
    return {name if len(values) == 1 else f"{name}_{i}": value for i, value in enumerate(values, 1)}


def _cell(value: Any) -> str | int | float:
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)
