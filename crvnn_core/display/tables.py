"""Tables: printed with aligned columns, wrapped where a terminal is too narrow; as Markdown, on pages and as CSV."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

import click
from attrs import frozen

_GAP = "  "
_NARROWEST = 8  # columns are not made narrower than this
#: Removes control characters, which have no width and could command a terminal; line ends stay.
CONTROL = {**dict.fromkeys((*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0))), 0x09: " "}


@frozen
class Table:
    """Columns, rows of cells, and the numbers of the columns that are aligned to the right.

    On a page, the macro ``table_of`` of ``macros.html.jinja`` draws it; cells may then be markup.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[int] = ()

    def print(self) -> None:
        """Print it as wide as the terminal."""
        head, *body = self.lines(terminal_width())
        click.secho(head, bold=True)
        for line in body:
            click.echo(line)

    def lines(self, width: int) -> list[str]:
        """Its lines, of at most ``width`` characters if its columns can be made that narrow."""
        cells = [[cell.translate(CONTROL) for cell in row] for row in (self.columns, *self.rows)]
        widths = [
            max(_width(line) for text in texts for line in text.split("\n"))
            for texts in zip(*cells, strict=True)
        ]
        room = width - len(_GAP) * (len(widths) - 1)
        while sum(widths) > room and max(widths) > _NARROWEST:
            widths[widths.index(max(widths))] -= 1
        return [line for row in cells for line in _row_lines(row, widths, self.right)]

    def markdown(self) -> str:
        """As a table of Markdown."""
        rule = ["---:" if number in self.right else "---" for number in range(len(self.columns))]
        rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in (self.columns, rule, *rows))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> None:
    """Print a table; the columns whose numbers are in ``right`` are aligned to the right."""
    Table(columns, rows, right).print()


def write_csv(file: IO[str], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table as CSV; texts that a spreadsheet would take for a formula get an apostrophe in front."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([_no_formula(name) for name in columns])
    writer.writerows([_no_formula(row.get(name, "")) for name in columns] for row in rows)


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def terminal_width() -> int:
    """The columns of the terminal; at least 200 in a pipe, where lines are not to be wrapped."""
    width = shutil.get_terminal_size().columns
    return width if sys.stdout.isatty() else max(width, 200)


def _row_lines(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> Iterator[str]:
    """The lines of one row, as many as its highest cell has."""
    wrapped = [list(_wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, wrapped))):
        texts = [lines[number] if number < len(lines) else "" for lines in wrapped]
        padding = [" " * (width - _width(text)) for text, width in zip(texts, widths, strict=True)]
        yield _GAP.join(
            pad + text if column in right else text + pad
            for column, (text, pad) in enumerate(zip(texts, padding, strict=True))
        ).rstrip()


def _wrapped(cell: str, width: int) -> Iterator[str]:
    """The lines of a cell: broken between words, and within a word that is wider than the column."""
    for line in cell.split("\n"):
        current = ""
        for word in line.split(" ") if _width(line) > width else [line]:
            joined = f"{current} {word}" if current else word
            if _width(joined) <= width:
                current = joined
                continue
            if current:
                yield current
            from rich.cells import chop_cells

            *full, current = chop_cells(word, width)
            yield from full
        yield current


def _width(text: str) -> int:
    """The columns that a text takes on a terminal: two for a wide character, none for a combining one."""
    if max(text, default="") < "\u0300":  # letters of European languages, one column each, need no library
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
