"""Rows of CSV and TSV files, with the line on which each begins."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from crvnn_core import InputError
from crvnn_core.errors import nearest
from crvnn_core.files import LONGEST_LINE, open_text
from crvnn_tasks.rows import listed

_LONGEST_CELL = LONGEST_LINE  # characters
_DELIMITERS = (",", ";", "\t", "|")


def table_rows(path: Path, kind: str, wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The rows of a CSV or TSV file as mappings from column to cell, or faults, with their line numbers.

    :param kind: ``csv`` or ``tsv``.
    :param wanted: columns that the first line must name.
    """
    mark = _delimiter(path, wanted) if kind == "csv" else "\t"
    cells = csv_cells(path, mark) if kind == "csv" else tsv_cells(path)
    _, header = next(cells, (0, []))
    if isinstance(header, str):
        raise InputError(f"{path}:1: {header}")
    columns = [name.strip() for name in header]
    _check_columns(path, columns, wanted, mark)
    for line, row in cells:
        if isinstance(row, str):
            yield line, row
        elif len(row) != len(columns):
            yield (
                line,
                f"the row has {len(row)} column{'s' * (len(row) != 1)}; the first line names {len(columns)}",
            )
        else:
            yield line, dict(zip(columns, row, strict=True))


def _delimiter(path: Path, wanted: Sequence[str]) -> str:
    """What separates the columns of a CSV file: the mark by which its first line names most of those wanted."""
    csv.field_size_limit(_LONGEST_CELL)
    with open_text(path, newline="") as file:
        line = next((line for line in file if line.strip()), "")
    try:
        rows = {mark: next(csv.reader([line], delimiter=mark)) for mark in _DELIMITERS}
    except csv.Error:  # reported when the rows are read
        return ","
    names = {mark: [name.strip() for name in row] for mark, row in rows.items()}
    return max(names, key=lambda mark: (len(set(wanted) & set(names[mark])), len(names[mark])))


def _check_columns(path: Path, columns: Sequence[str], wanted: Sequence[str], mark: str) -> None:
    if not columns:
        raise InputError(f"{path}: the file is empty")
    separated = "" if mark == "," else f" (columns are separated by {mark!r})"
    for name in wanted:
        if name not in columns:
            raise InputError(
                f"{path}: there is no column '{name}'.{nearest(name, columns)} "
                f"The first line names {listed([repr(column) for column in columns])}{separated}.\n"
                "  task.text and task.label say which columns to read."
            )
        if columns.count(name) > 1:
            raise InputError(f"{path}: two columns are called '{name}'")


def csv_cells(path: Path, delimiter: str = ",") -> Iterator[tuple[int, list[str] | str]]:
    """Line number and cells of each row of a CSV file; a message instead of the cells for a malformed row.

    A quotation mark that never closes and swallows the lines after it raises ``InputError``: where the next row begins
    is then unknown.
    """
    csv.field_size_limit(_LONGEST_CELL)
    with open_text(path, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader, None)
            except csv.Error as error:
                fault = _csv_fault(error)
                if reader.line_num > line:
                    raise InputError(
                        f"{path}:{line}: {fault}; the row that begins here would reach to line {reader.line_num}.\n"
                        "  Correct the quotation marks of this row; bad_rows=skip cannot skip it."
                    ) from None
                yield line, fault
                continue
            if row is None:
                return
            if row:
                yield line, row


def _csv_fault(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "a quotation mark never closes"
    if "expected after" in str(error):
        return f"misplaced quotation mark: {error}"
    return f"the row cannot be read: {error}"


def tsv_cells(path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """Line number and cells of each row of a TSV file. Quotation marks count only around a whole cell."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, [_unquoted(cell) for cell in line.rstrip("\r\n").split("\t")]


def _unquoted(cell: str) -> str:
    inside = cell[1:-1]
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if quoted else cell
