"""Rows of CSV and TSV files, with the line on which each begins."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from crvnn_core import InputError
from crvnn_core.files import open_text

_LONGEST_CELL = 2**31 - 1  # characters; the maximum on every platform


def csv_cells(path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """Line number and cells of each row of a CSV file; a message instead of the cells for a malformed row.

    A quotation mark that never closes and swallows the lines after it raises ``InputError``: where the next row begins
    is then unknown.
    """
    csv.field_size_limit(_LONGEST_CELL)
    with open_text(path, newline="") as file:
        reader = csv.reader(file, strict=True)
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
