"""One axis of a chart: its range, its ticks, and where a value lies on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import field, frozen


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
