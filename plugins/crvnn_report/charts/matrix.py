"""Matrices of numbers between 0 and 1: heat maps of probabilities, and confusion matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import frozen
from markupsafe import Markup

from crvnn_report.rendering import render

_LETTER = 7.2  # approximate width of one, in pixels
_FAINT = 0.005  # a cell below this is not drawn
_DARK = 0.55  # a cell above this gets light text


@frozen
class _Cell:
    """A cell, with its upper left corner in pixels."""

    x: float
    y: float
    value: float
    text: str
    framed: bool
    tooltip: str

    @property
    def dark(self) -> bool:
        return self.value > _DARK


@frozen
class _Layout:
    """Sizes in pixels."""

    cell_width: float
    cell_height: float
    #: The space above and to the left of the cells, for the names of columns and rows.
    top: float
    left: float
    slanted: bool
    width: float
    height: float


@frozen
class Matrix:
    """A value from 0 to 1 for each row and column, drawn as the shade of a cell."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    #: The text in cell (i, j), and its tooltip.
    text: Callable[[int, int], str]
    tooltip: Callable[[int, int], str]
    #: What the columns and the rows are; empty if that is plain.
    x_label: str = ""
    y_label: str = ""
    #: Cells with a frame around them.
    framed: frozenset[tuple[int, int]] = frozenset()
    #: Columns of tokens outside the vocabulary.
    unknown: frozenset[int] = frozenset()

    def draw(self, title: str, description: str, css: str, cell: tuple[float, float]) -> Markup:
        """The matrix as SVG.

        :param css: the class of ``page.css`` that gives the cells their colour.
        :param cell: width and height of a cell in pixels.
        """
        layout = self._layout(*cell)
        return render(
            "charts/matrix.svg",
            title=title,
            description=description,
            css="chart matrix",
            width=layout.width,
            height=layout.height,
            layout=layout,
            matrix=self,
            colour=css,
            rows=[_shortened(name) for name in self.rows],
            columns=[_shortened(name) for name in self.columns],
            row_step=max(1, round(13 / layout.cell_height)),  # so that the names of rows do not touch
            cells=self._cells(layout),
        )

    def _layout(self, wide: float, high: float) -> _Layout:
        letters = max((len(_shortened(name)) for name in self.columns), default=1)
        slanted = max(map(len, self.columns), default=0) * _LETTER + 4 > wide
        top = letters * _LETTER * 0.78 + 12 if slanted else 20.0
        top += 16 if self.x_label else 0
        left = max(48.0, max(len(_shortened(name)) for name in self.rows) * _LETTER + 12)
        left += 16 if self.y_label else 0
        margin = top * 0.75 if slanted else 4.0  # on the right, for the last slanted name
        width, height = left + wide * len(self.columns) + margin, top + high * len(self.rows) + 6
        return _Layout(wide, high, top, left, slanted, round(width, 1), round(height, 1))

    def _cells(self, layout: _Layout) -> Iterator[_Cell]:
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                text, framed = self.text(i, j), (i, j) in self.framed
                if value >= _FAINT or text or framed:
                    x, y = layout.left + j * layout.cell_width, layout.top + i * layout.cell_height
                    yield _Cell(x, y, value, text, framed, self.tooltip(i, j))


def _shortened(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
