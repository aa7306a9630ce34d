"""What all pictures share: text that is only text, axes, and the frame around a plot."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from html import escape

from attrs import field, frozen

WIDTH, HEIGHT = 460, 270
#: Room that names below the horizontal axis take when they stand aslant.
ASLANT = 32
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 12, 44
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)


def plain(value: object) -> str:
    """Any text so that a page shows it and does nothing else; what cannot be seen becomes a mark."""
    return escape(_HIDDEN.sub("\ufffd", str(value)))


def picture(
    title: str, description: str, size: tuple[float, float], content: str, kind: str = "chart"
) -> str:
    """An SVG that says what it shows to those who cannot see it."""
    width, height = size
    return (
        f'<svg class="{kind}" role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{plain(title)}</title><desc>{plain(description)}</desc>'
        f"{content}</svg>"
    )


def text(x: float, y: float, content: object, kind: str, more: str = "") -> str:
    """A text in a picture."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{more}>{plain(content)}</text>'


def tip(content: str) -> str:
    """What is said of an element when it is pointed at."""
    return f"<title>{plain(content)}</title>"


def short(value: float) -> str:
    """A number for an axis: ``0.25``, ``1,500``, ``20k``."""
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


@frozen
class Axis:
    """From one value to another, drawn from one place to another."""

    label: str
    low: float
    high: float
    logarithmic: bool = False
    named: Callable[[float], str] = short
    #: Values to mark, if they are not to be chosen here; their names may be long, and stand aslant.
    fixed: Sequence[float] = field(default=())
    aslant: bool = False

    @classmethod
    def around(
        cls,
        label: str,
        values: Sequence[float],
        *,
        logarithmic: bool = False,
        zero: bool = False,
        named: Callable[[float], str] = short,
    ) -> Axis:
        """With room for all values, and never of no extent.

        :param zero: begin there.
        """
        low, high = min(values), max(values)
        if logarithmic:
            room = max((high / low) ** 0.05, 1.1)
            return cls(label, low / room, high * room, True, named)
        low = min(low, 0.0) if zero else low
        room = max((high - low) * 0.05, max(abs(low), abs(high)) * (0.1 if low == high else 1e-6))
        room = room if room > 1e-12 else 1.0
        return cls(label, low if zero and low == 0 else low - room, high + room, False, named)

    def share(self, value: float) -> float:
        """How far along a value lies, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Values worth a line: round ones."""
        if self.fixed:
            return list(self.fixed)
        if self.logarithmic and (found := self._powers(most)):
            return found
        rough = (self.high - self.low) / most
        size = 10 ** math.floor(math.log10(rough))
        step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, 1 - math.floor(math.log10(step)))  # enough to write a multiple of it
        return [round(number * step, digits) for number in range(first, last + 1)]

    def _powers(self, most: int) -> list[float]:
        """Powers of ten, with others between them where there is room; nothing if they are too few."""
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
    """Two axes and the place between them."""

    across: Axis
    upward: Axis
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def bottom(self) -> float:
        """Where the plot ends, above the names of the horizontal axis."""
        return self.height - _BOTTOM - (ASLANT if self.across.aslant else 0)

    def x(self, value: float) -> float:
        """Where a value of the horizontal axis is drawn."""
        return _LEFT + self.across.share(value) * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Where a value of the vertical axis is drawn."""
        return self.bottom - self.upward.share(value) * (self.bottom - _TOP)

    def frame(self) -> str:
        """Lines for round values, their names, and what the axes are."""
        right, bottom = self.width - _RIGHT, self.bottom
        parts = []
        for value in self.upward.ticks(5):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
            parts.append(text(_LEFT - 7, y + 4, self.upward.named(value), "tick end"))
        for value in self.across.ticks(6):
            x = self.x(value)
            parts.append(f'<line class="stub" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}"/>')
            if self.across.aslant:
                turn = f' transform="rotate(-32 {x + 4:.1f} {bottom + 15:.1f})"'
                parts.append(text(x + 4, bottom + 15, self.across.named(value), "tick end", turn))
            else:
                parts.append(text(x, bottom + 17, self.across.named(value), "tick middle"))
        parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
        parts.append(text((_LEFT + right) / 2, self.height - 5, self.across.label, "label middle"))
        return "".join(parts)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> str:
        """A line through points."""
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline class="{kind}" points="{places}"/>'

    def dot(self, point: tuple[float, float], kind: str, said: str, radius: float = 3.6) -> str:
        """A point that says what it is when it is pointed at."""
        x, y = point
        place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius:.1f}"'
        return f'<circle class="{kind}" {place}>{tip(said)}</circle>'

    def whisker(self, x: float, low: float, high: float, kind: str) -> str:
        """From the least to the most."""
        place = f"{self.x(x):.1f}"
        return (
            f'<line class="{kind}" x1="{place}" y1="{self.y(low):.1f}" x2="{place}" y2="{self.y(high):.1f}"/>'
        )

    def drawn(self, title: str, description: str, content: str) -> str:
        """The whole picture."""
        return picture(title, description, (self.width, self.height), self.frame() + content)
