"""Texts that a user gives to a trained model: one for each input, or two for a task on pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crvnn_core.errors import InputError
from crvnn_core.interfaces import Task

#: A text, or two of them for a task on pairs.
Text = str | tuple[str, str]


def pair_texts(texts: Sequence[str], task: Task) -> list[Text]:
    """Texts as ``Trained.predict`` takes them: as they are, or two by two for a task on pairs."""
    if task.arity == 1:
        return list(texts)
    if len(texts) % 2:
        raise InputError(f"the task is about pairs of texts; {len(texts)} cannot be paired")
    return list(zip(texts[::2], texts[1::2], strict=True))


def read_texts(lines: Iterable[str], task: Task, name: str) -> list[Text]:
    """The texts of a file, one a line; the two of a pair have a tab between them.

    :param lines: an open file, say.
    :param name: of the file, for error messages.
    """
    try:
        rows = [line.rstrip("\r\n") for line in lines]
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: this is not UTF-8 text: {error}") from None
    if not rows:
        raise InputError(f"{name}: there are no texts in it")
    return [_text(row, task, f"{name}:{number}") for number, row in enumerate(rows, 1)]


def _text(row: str, task: Task, where: str) -> Text:
    if not row.strip():
        raise InputError(f"{where}: the line is empty")
    if task.arity == 1:
        return row
    one, _, two = row.partition("\t")
    if not one.strip() or not two.strip():
        raise InputError(f"{where}: expected two texts with a tab between them")
    return one, two
