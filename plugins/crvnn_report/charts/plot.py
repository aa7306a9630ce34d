"""Plots with two axes: lines, dots and ranges over a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from markupsafe import Markup

from crvnn_report.charts.axis import Axis
from crvnn_report.rendering import render

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 460, 270
#: The height that slanted tick labels need in addition.
SLANTED_HEIGHT = 32
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 12, 44


@frozen
class Line:
    """A line through points, in pixels."""

    shape: ClassVar[str] = "line"
    css: str
    points: Points


@frozen
class Dot:
    """A point, in pixels, with a tooltip."""

    shape: ClassVar[str] = "dot"
    css: str
    x: float
    y: float
    radius: float
    tooltip: str


@frozen
class Range:
    """A vertical line from the least value to the greatest, in pixels."""

    shape: ClassVar[str] = "range"
    css: str
    x: float
    low: float
    high: float


Mark = Line | Dot | Range


@frozen
class Plot:
    """Two axes, and what is drawn between them.

    ``line``, ``dot`` and ``range`` make marks from values; ``draw`` makes the SVG. The argument ``css`` names the
    classes of ``page.css`` that a mark has.
    """

    x_axis: Axis
    y_axis: Axis
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def left(self) -> int:
        """The pixel where the horizontal axis begins."""
        return _LEFT

    @property
    def right(self) -> int:
        """The pixel where the horizontal axis ends."""
        return self.width - _RIGHT

    @property
    def bottom(self) -> int:
        """The pixel of the horizontal axis; its labels are below."""
        return self.height - _BOTTOM - (SLANTED_HEIGHT if self.x_axis.slanted else 0)

    def x(self, value: float) -> float:
        """The pixel of a value of the horizontal axis."""
        return _LEFT + self.x_axis.fraction(value) * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The pixel of a value of the vertical axis."""
        return self.bottom - self.y_axis.fraction(value) * (self.bottom - _TOP)

    def line(self, points: Points, css: str) -> Line:
        """A line through points."""
        return Line(css, [(self.x(x), self.y(y)) for x, y in points])

    def dot(self, point: tuple[float, float], css: str, tooltip: str, radius: float = 3.6) -> Dot:
        """A point with a tooltip."""
        return Dot(css, self.x(point[0]), self.y(point[1]), radius, tooltip)

    def range(self, x: float, low: float, high: float, css: str) -> Range:
        """A vertical line between two values."""
        return Range(css, self.x(x), self.y(low), self.y(high))

    def draw(self, title: str, description: str, marks: Sequence[Mark]) -> Markup:
        """The plot as SVG.

        :param title: its name for those who cannot see it, followed by the description.
        """
        return render(
            "charts/plot.svg",
            title=title,
            description=description,
            css="chart",
            width=self.width,
            height=self.height,
            plot=self,
            marks=marks,
        )
