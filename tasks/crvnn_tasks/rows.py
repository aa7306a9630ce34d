"""Shared by all tasks that read files: ``FileTask``, rows, and the handling of malformed rows.

A new task of this package is a module or folder of its own, beside ``sst.py``, ``nli.py`` and ``listops/``; if it reads
files, its class extends ``FileTask`` and reads a line with ``example_of``, or a file with ``parse``.
"""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from crvnn_core import CrvnnError, Example, InputError, InputRow, Task, UnknownNameError
from crvnn_core.documents import parse_json
from crvnn_core.errors import nearest
from crvnn_core.files import open_text
from crvnn_tasks.tokenization import vocabulary_of

_FIRST = 100  # rows of which one is well-formed in a file of a task's form


@frozen
class Row:
    """One row of a file: an example, or the fault of a malformed row."""

    file: Path
    line: int
    example: Example | None = None
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault}"


class FileTask(Task):
    """Base class of tasks that read their splits from files in a directory, on first use.

    A subclass sets ``files`` and ``classes``, and implements ``tokenize`` and either ``example_of`` or ``parse``.

    :param directory: where the files are.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    #: By split, its files: each is a tuple of alternative names, of which the first that exists is read.
    files: dict[str, tuple[tuple[str, ...], ...]]
    #: Where the files are published, for error messages.
    source: str = ""
    #: Splits whose file the user named: it is an error if that file is missing beside the training files.
    named: frozenset[str] = frozenset()
    #: Whether examples are generated, so that no file is read.
    generated: bool = False
    #: Tokens that are rarer than this in the training split are not in the vocabulary.
    min_count: int = 1

    def __init__(self, directory: str, bad_rows: Literal["stop", "skip"] = "stop") -> None:
        self.directory = Path(directory)
        self.bad_rows = bad_rows
        self._read: dict[Path, list[Example]] = {}

    def example_of(self, line: str, number: int) -> Example | None:
        """The example on a line; ``None`` if it is no row, ``ValueError`` or ``InputError`` if malformed."""
        raise NotImplementedError

    def parse(self, path: Path) -> Iterator[Row]:
        """The rows of one file; a malformed row has a ``fault`` instead of an example."""
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    example = self.example_of(line, number)
                except (ValueError, InputError) as error:
                    yield Row(path, number, fault=" ".join(str(error).split()))
                else:
                    if example is not None:
                        yield Row(path, number, example)

    def holds(self, split: str, example: Example, place: int) -> bool:
        """Whether a split has this example of its files, the ``place``-th from 0: splits may share files."""
        return True

    @cached_property
    def splits(self) -> Sequence[str]:  # type: ignore[override]
        """Training and the splits whose files exist; all splits, if no file exists or examples are generated.

        A split whose file the user named is never dropped: an absent one raises ``CrvnnError`` if training's exist.
        """
        if self.generated:
            return tuple(self.files)
        train, *others = self.files
        missing = {split: why for split in self.files if (why := self.why_missing(split))}
        if train not in missing and (named := [split for split in missing if split in self.named]):
            raise CrvnnError(missing[named[0]])
        return (
            train,
            *(split for split in others if split not in missing or len(missing) == len(self.files)),
        )

    @cached_property
    def vocabulary(self) -> Sequence[str]:  # type: ignore[override]
        """The tokens of the training split that are not too rare, by descending frequency."""
        return vocabulary_of(self.examples(next(iter(self.files)), 0), self.min_count)

    def paths(self, split: str) -> list[Path]:
        """The files of a split; if one is missing, ``CrvnnError`` that names its source."""
        if split not in self.files:
            known = f"{nearest(split, self.files)} There are {', '.join(self.files)}."
            raise UnknownNameError(f"no split is called '{split}'.{known}")
        found = []
        for names in self.files[split]:
            there = [path for name in names if (path := self.directory / name).is_file()]
            if not there:
                source = "" if split in self.named else self.source
                raise CrvnnError(_missing(self.directory, names, source))
            found.append(there[0])
        return found

    def why_missing(self, split: str) -> str:
        """Which file of a split is missing, and where it is published; empty if none is."""
        if self.generated or split not in self.files:
            return ""
        try:
            self.paths(split)
        except CrvnnError as error:
            return str(error)
        return ""

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        found = chain.from_iterable(map(self.read, self.paths(split)))
        return (example for place, example in enumerate(found) if self.holds(split, example, place))

    def rows(self, split: str) -> Iterator[Row]:
        """Every row of a split; the malformed ones of files that splits share are in the first of them."""
        place = 0
        for path in self.paths(split):
            first = next(
                each for each in self.files if not self.why_missing(each) and path in self.paths(each)
            )
            for row in self.parse(path):
                if row.example is not None:
                    if self.holds(split, row.example, place):
                        yield row
                    place += 1
                elif split == first:
                    yield row

    def read(self, path: Path) -> Iterator[Example]:
        if path not in self._read:
            self._read[path] = list(well_formed(self.parse(path), path, self.bad_rows))
        yield from self._read[path]

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The rows of a file to predict; ``None`` if the first 100 are all malformed: it has another form."""
        rows = self.parse(path)
        first = list(islice(rows, _FIRST))
        if all(row.example is None for row in first):
            return None
        return map(self._input, chain(first, rows))

    def _input(self, row: Row) -> InputRow:
        if row.example is None:
            return InputRow(row.line, fault=row.fault)
        texts = tuple(" ".join(tokens) for tokens in row.example.sequences)
        return InputRow(row.line, texts, row.example.sequences, str(self.classes[row.example.label]))


class RecordTask(FileTask):
    """Base class of tasks whose files have named columns (JSON Lines, CSV): one or two with texts, one with a label.

    A subclass implements ``records`` and ``tokenize``, and sets ``text`` and ``label``.
    """

    #: The columns of the texts, and of the label.
    text: Sequence[str]
    label: str

    @abstractmethod
    def records(self, path: Path, labelled: bool = True) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
        """Line number and record of each row, by column; a malformed row gives a message instead.

        :param labelled: whether rows without a label are malformed.
        """

    def label_of(self, record: Mapping[str, Any]) -> str:
        """The label of a row; ``ValueError`` if there is none."""
        return text_of(record, self.label)

    def texts_of(self, record: Mapping[str, Any]) -> dict[str, str]:
        """The texts of a row by column; ``ValueError`` if one is missing."""
        return {column: text_of(record, column) for column in self.text}

    def _sequences(self, texts: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
        sequences = tuple(self.tokenize(text) for text in texts.values())
        for column, tokens in zip(texts, sequences, strict=True):
            if not tokens:
                raise ValueError(f"'{column}' is empty")
        return sequences

    def parse(self, path: Path) -> Iterator[Row]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        for line, record in self.records(path):
            try:
                yield Row(path, line, self._example(expect_record(record), numbers))
            except ValueError as error:
                yield Row(path, line, fault=str(error))

    def _example(self, record: Mapping[str, Any], numbers: Mapping[str, int]) -> Example:
        texts, label = self.texts_of(record), self.label_of(record)
        sequences = self._sequences(texts)
        if label not in numbers:
            known = (
                f"is not one of the training labels: {listed(self.classes)}.{nearest(label, self.classes)}"
            )
            raise ValueError(f"the label '{label}' {known}")
        return Example(sequences, numbers[label])

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The rows of a file with these columns, with or without a label; ``None`` for another file."""
        return (self.input_row(line, record) for line, record in self.records(path, labelled=False))

    def input_row(self, line: int, found: Mapping[str, Any] | str) -> InputRow:
        """A row to predict."""
        try:
            record = expect_record(found)
            texts = self.texts_of(record)
            sequences = self._sequences(texts)
        except ValueError as error:
            return InputRow(line, fault=str(error))
        columns = {name: value for name, value in record.items() if name not in (*self.text, self.label)}
        return InputRow(line, tuple(texts.values()), sequences, label_text(record.get(self.label)), columns)


def expect_record(found: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """What ``records`` gives for a row; ``ValueError`` with its fault if the row is malformed."""
    if isinstance(found, str):
        raise ValueError(found)
    return found


def label_text(value: Any) -> str:
    """A label as text; empty if it is missing or neither a string, a number nor a boolean."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _missing(directory: Path, names: Sequence[str], source: str) -> str:
    """The message for a missing file: its names, the files that exist in the directory, and the source."""
    folder, name = (directory / names[0]).parent, Path(names[0]).name
    wanted = [name, *(other for other in names[1:] if not other.endswith(".gz"))]
    where = "the current directory" if folder == Path() else folder
    if folder.is_dir():
        has = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
        there = f"It has {listed(has)}." if has else "There is no file in it."
        text = f"{where} has no {' or '.join(wanted)}.{nearest(name, has, cutoff=0.7)} {there}"
    else:
        text = f"{folder} has no {' or '.join(wanted)}: there is no such directory."
    return f"{text}\n  The data comes from {source}." if source else text


def listed(names: Sequence[str], at_most: int = 8) -> str:
    """The first names separated by commas, and the number of the others."""
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number and object of each line of a JSON Lines file; a malformed line gives a message instead."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = parse_json(line.rstrip("\n"), strict=True)
            except json.JSONDecodeError as error:
                yield number, f"this is not JSON: {error.msg} (column {error.colno})"
            except ValueError as error:  # thousands of digits, nested brackets, half a surrogate pair
                yield number, f"this JSON cannot be read: {error}"
            else:
                kind = _KINDS[type(record)]
                yield (
                    number,
                    record if kind == "an object" else f"each line must be one JSON object, not {kind}",
                )


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def text_of(record: Mapping[str, Any], key: str) -> str:
    """The string under a key of a row; ``ValueError`` if the key is missing or its value is no string."""
    if key not in record:
        raise ValueError(
            f"there is no '{key}'.{nearest(key, record)} There is {listed(list(record)) or 'nothing'}."
        )
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is {_KINDS.get(type(value), 'something else')}, not a string")
    return value


def well_formed(rows: Iterable[Row], path: Path, bad_rows: str) -> Iterator[Example]:
    """The examples of a file's rows. A malformed row raises ``InputError``, or is skipped and reported at the end."""
    skipped: list[Row] = []
    usable = 0
    for row in rows:
        if row.example is not None:
            usable += 1
            yield row.example
        elif bad_rows == "stop":
            raise InputError(f"{row}\n  --set task.bad_rows=skip skips such rows.")
        else:
            skipped.append(row)
    first = f"; the first is line {skipped[0].line}: {skipped[0].fault}" if skipped else ""
    if not usable:
        raise InputError(f"{path}: this file has no well-formed row{first}")
    if skipped:
        note(f"{path}: skipped {len(skipped)} of {usable + len(skipped)} rows{first}")


def note(message: str) -> None:
    """Print a message about the data that is no error to standard error."""
    print(f"crvnn: {message}", file=sys.stderr)
