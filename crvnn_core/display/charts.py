"""Charts as inline SVG: plots with two axes, and matrices. ``templates/charts`` has the markup.

A chart is computed here in pixels and coloured by the classes of ``templates/page.css``: ``run-0`` and so on for runs,
``line``, ``mean``, ``dev``, ``whisker`` and so on for marks.

>>> plot = Plot(Axis.fit("step", [0, 100]), Axis.fit("loss", [0.1, 2.3]))
>>> svg = plot.draw("Loss", "What it shows, in words.", [plot.line([(0, 2.3), (100, 0.1)], "line run-0")])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from attrs import field, frozen
from markupsafe import Markup

from crvnn_core.display.pages import KIT, render

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 460, 270
_SLANTED_HEIGHT = 32  # that slanted tick labels need in addition
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 446, 12, 226  # the pixels at which the axes of a plot begin and end
_LETTER = 7.2  # approximate width of one, in pixels
_FAINT = 0.005  # a cell below this is not drawn
_DARK = 0.55  # a cell above this gets light text
_SIDE_BY_SIDE = 48  # letters of all names of an axis together, above which they are slanted


def tick_label(value: float) -> str:
    """A number as an axis shows it: ``0.25``, ``1,500``, ``20k``, ``3e-5``."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


@frozen
class Axis:
    """A range of values, linear or logarithmic."""

    label: str
    low: float
    high: float
    log: bool = False
    format: Callable[[float], str] = tick_label
    #: The values to label; chosen by ``ticks`` if there are none.
    fixed_ticks: Sequence[float] = field(default=())
    #: Draw the tick labels at a slant, because they are too long to stand side by side.
    slanted: bool = False

    @classmethod
    def fit(cls, label: str, values: Sequence[float], *, log: bool = False, zero: bool = False) -> Axis:
        """An axis with a margin around all values, and of a positive extent even if they are all equal.

        :param zero: begin at zero, unless a value is below it.
        """
        low, high = min(values), max(values)
        if log:
            factor = max((high / low) ** 0.05, 1.1)
            return cls(label, low / factor, high * factor, log=True)
        low = min(low, 0.0) if zero else low
        margin = max((high - low) * 0.05, max(abs(low), abs(high)) * (0.1 if low == high else 1e-6))
        margin = margin if margin > 1e-12 else 1.0
        return cls(label, low if zero and low == 0 else low - margin, high + margin)

    @classmethod
    def of_names(cls, label: str, names: Sequence[str]) -> Axis:
        """An axis with a place for each name, the first at 0; at a slant if they are too long to stand side by side."""
        return cls(
            label,
            -0.5,
            len(names) - 0.5,
            format=lambda place: names[round(place)],
            fixed_ticks=[float(place) for place in range(len(names))],
            slanted=len(names) * max(map(len, names), default=0) > _SIDE_BY_SIDE,
        )

    def fraction(self, value: float) -> float:
        """Where a value lies on the axis: 0 at its low end, 1 at its high end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the range, about ``most`` of them."""
        if self.fixed_ticks:
            return list(self.fixed_ticks)
        if self.log and (found := self._log_ticks(most)):
            return found
        rough = (self.high - self.low) / most
        size = 10 ** math.floor(math.log10(rough))
        step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, 1 - math.floor(math.log10(step)))  # enough to write a multiple of it
        return [round(number * step, digits) for number in range(first, last + 1)]

    def _log_ticks(self, most: int) -> list[float]:
        """Powers of ten, with multiples between them where there is room; none if that gives fewer than two."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        found: list[float] = []
        for factors in ((1,), (1, 3), (1, 2, 5)):
            values = [f * 10.0**power for power in range(first, last + 1) for f in factors]
            inside = sorted(value for value in values if self.low <= value <= self.high)
            if found and len(inside) > most + 1:
                break
            found = inside
        every = -(-len(found) // (most + 1))
        return found[::every] if len(found) > 1 else []


@frozen
class Plot:
    """Two axes, and what is drawn between them.

    ``line``, ``dot`` and ``range`` draw marks from values; ``draw`` makes the SVG. The argument ``css`` names the
    classes of ``templates/page.css`` that a mark has.
    """

    x_axis: Axis
    y_axis: Axis

    def x(self, value: float) -> float:
        """The pixel of a value of the horizontal axis."""
        return _LEFT + self.x_axis.fraction(value) * (_RIGHT - _LEFT)

    def y(self, value: float) -> float:
        """The pixel of a value of the vertical axis."""
        return _BOTTOM - self.y_axis.fraction(value) * (_BOTTOM - _TOP)

    def line(self, points: Points, css: str) -> Markup:
        """A line through points."""
        pixels = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return Markup('<polyline class="{}" points="{}"/>').format(css, pixels)

    def dot(self, point: tuple[float, float], css: str, tooltip: str, radius: float = 3.6) -> Markup:
        """A point with a tooltip."""
        circle = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
        return circle.format(css, self.x(point[0]), self.y(point[1]), radius, tooltip)

    def range(self, x: float, low: float, high: float, css: str) -> Markup:
        """A vertical line between two values."""
        line = Markup('<line class="{0}" x1="{1:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{3:.1f}"/>')
        return line.format(css, self.x(x), self.y(low), self.y(high))

    def draw(self, title: str, description: str, marks: Sequence[Markup]) -> Markup:
        """The plot as SVG.

        :param title: its name for those who cannot see it, followed by the description.
        """
        return render(
            KIT,
            "charts/plot.svg",
            title=title,
            description=description,
            css="chart",
            width=_WIDTH,
            height=_HEIGHT + (_SLANTED_HEIGHT if self.x_axis.slanted else 0),
            plot=self,
            left=_LEFT,
            right=_RIGHT,
            bottom=_BOTTOM,
            marks=marks,
        )


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
        wide, high = cell
        rows, columns = ([_shortened(name) for name in names] for names in (self.rows, self.columns))
        slanted = max(map(len, self.columns), default=0) * _LETTER + 4 > wide
        top = max(map(len, columns), default=1) * _LETTER * 0.78 + 12 if slanted else 20.0
        top += 16 if self.x_label else 0
        left = max(48.0, max(map(len, rows)) * _LETTER + 12) + (16 if self.y_label else 0)
        margin = top * 0.75 if slanted else 4.0  # on the right, for the last slanted name
        return render(
            KIT,
            "charts/matrix.svg",
            title=title,
            description=description,
            css="chart matrix",
            width=round(left + wide * len(columns) + margin, 1),
            height=round(top + high * len(rows) + 6, 1),
            matrix=self,
            colour=css,
            rows=rows,
            columns=columns,
            row_step=max(1, round(13 / high)),  # so that the names of rows do not touch
            cells=self._cells(),
            dark=_DARK,
            wide=wide,
            high=high,
            top=top,
            left=left,
            slanted=slanted,
        )

    def _cells(self) -> Iterator[tuple[int, int, float, str, bool, str]]:
        """Row, column, value, text, whether there is a frame, and tooltip of the cells that can be seen."""
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                text, framed = self.text(i, j), (i, j) in self.framed
                if value >= _FAINT or text or framed:
                    yield i, j, value, text, framed, self.tooltip(i, j)


def _shortened(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
