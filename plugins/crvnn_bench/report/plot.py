"""The picture of ``crvnn bench lengths``: time and memory against length, as SVG written by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from attrs import frozen

from crvnn_bench.report.environment import sentence
from crvnn_core import CrvnnError, InputError
from crvnn_core.files import open_text
from crvnn_report.svg import Axis, text

#: For light pages and for dark ones; told apart by people who see few colours, too.
_COLOURS = (
    ("#0b6fb8", "#5bb4f5"),
    ("#d1495b", "#ff8b94"),
    ("#2a8c5a", "#63d297"),
    ("#8a5cc2", "#c3a2f2"),
    ("#b8770b", "#f2bd5c"),
    ("#4d5a66", "#aab8c4"),
)
_WIDTH, _HEIGHT = 1250, 466
_TOP, _BOTTOM, _PLOT = (
    84,
    384,
    350,
)  # of a panel: its edges, and the width of the plot; labels stand beside it
_LEFTS = (72, 690)  # where the panels begin
_APART = 17  # between two labels


@frozen
class Line:
    """A contender: its points, and how they grow."""

    name: str
    points: list[tuple[float, float]]
    exponent: float | None


@frozen
class Side:
    """An axis and where it is drawn, from one place to another."""

    axis: Axis
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Where a value is drawn."""
        return self.begin + self.axis.share(value) * (self.end - self.begin)

    def ticks(self) -> tuple[list[float], list[float]]:
        """Values with a name, and the rest of their decades."""
        low, high = self.axis.low, self.axis.high
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
        every = [factor * 10.0**power for power in powers for factor in range(1, 10)]
        named = self.axis.ticks()
        return named, [value for value in every if low <= value <= high and value not in named]


def read_results(path: Path) -> dict[str, Any]:
    """What ``crvnn bench lengths`` wrote."""
    with open_text(path) as file:
        try:
            results = json.load(file)
        except ValueError as error:
            raise CrvnnError(f"{path}: this is not JSON: {error}") from None
    kind = results.get("bench") if isinstance(results, dict) else None
    if kind != "lengths":
        found = f"these are results of 'crvnn bench {kind}'" if kind else "there are no results in it"
        raise InputError(f"{path}: {found}; the picture is made of those of 'crvnn bench lengths'")
    if missing := {"environment", "setup", "width", "points", "exponents"} - results.keys():
        raise InputError(f"{path}: the results are not whole: there is no '{min(missing)}'")
    if not any(point["seconds"] or point["bytes"] for point in results["points"]):
        raise InputError(f"{path}: nothing was measured, so there is nothing to draw")
    return dict(results)


def draw(results: dict[str, Any]) -> str:
    """The picture as SVG."""
    setup = results["setup"]
    width = f"width {results['width']}"
    title = f"A training step of one sequence, {setup['max_steps']} recursion steps, {width}"
    names = list(dict.fromkeys(point["contender"] for point in results["points"]))
    panels = [
        _panel("seconds", "time", "Time", _seconds, results, names, _LEFTS[0]),
        _panel("bytes", "memory", "Peak memory", _bytes, results, names, _LEFTS[1]),
    ]
    machine = results["environment"]
    where = sentence(machine)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(title)}: time and peak memory against length">',
            _style(len(names)),
            f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>',
            text(_LEFTS[0] - 44, 32, title, "title"),
            *panels,
            text(_LEFTS[0] - 44, _HEIGHT - 14, where, "small"),
            "</svg>\n",
        ]
    )


def _panel(
    key: str, fit: str, title: str, named: Any, results: dict[str, Any], names: Sequence[str], left: float
) -> str:
    lines = []
    for name in names:
        points = [(p["length"], p[key]) for p in results["points"] if p["contender"] == name and p[key]]
        lines.append(Line(name, points, results["exponents"][name][fit]))
    drawn = [line for line in lines if line.points]
    every = [point for line in drawn for point in line.points]
    if not every:
        return ""
    across = Side(Axis.around("tokens", [x for x, _ in every], logarithmic=True), left, left + _PLOT)
    upward = Side(Axis.around(title, [y for _, y in every], logarithmic=True), _BOTTOM, _TOP)
    parts = [text(left - 44, 62, f"{title} against length", "panel"), _grid(across, upward, named)]
    parts.append(text(left + _PLOT / 2, _BOTTOM + 36, "tokens", "tick middle"))
    for line in drawn:
        parts.append(_curve(line, across, upward, names.index(line.name)))
    parts.append(_labels(drawn, across, upward, names))
    return "\n".join(parts)


def _grid(across: Side, upward: Side, named: Any) -> str:
    parts = []
    for axis, horizontal in ((across, False), (upward, True)):
        major, minor = axis.ticks()
        for value in (*minor, *major):
            place = axis.at(value)
            kind = "grid" if value in major else "fine"
            if horizontal:
                parts.append(_segment(across.begin, place, across.end, place, kind))
            else:
                parts.append(_segment(place, upward.begin, place, upward.end, kind))
        for value in major:
            if horizontal:
                parts.append(text(across.begin - 8, axis.at(value) + 4, named(value), "tick end"))
            else:
                parts.append(text(axis.at(value), upward.begin + 18, f"{value:,.0f}", "tick middle"))
    return "\n".join(parts)


def _curve(line: Line, across: Side, upward: Side, number: int) -> str:
    places = [(across.at(x), upward.at(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle class="dot s{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in places)
    return f'<polyline class="line s{number}" points="{path}"/>{dots}'


def _labels(lines: Sequence[Line], across: Side, upward: Side, names: Sequence[str]) -> str:
    """Names at the ends of the lines, moved apart where they would touch."""
    ordered = sorted(lines, key=lambda line: upward.at(line.points[-1][1]))
    wanted = [upward.at(line.points[-1][1]) for line in ordered]
    parts = []
    for place, line in zip(_apart(wanted, _TOP, _BOTTOM), ordered, strict=True):
        x, y = across.at(line.points[-1][0]), upward.at(line.points[-1][1])
        number = names.index(line.name)
        stopped = across.end - x > _APART  # before the others: its name stands at the edge all the same
        if stopped or abs(place - y) > 2:
            way = f"M{x + 5:.1f} {y:.1f} L{across.end + 4:.1f} {place:.1f}"
            parts.append(f'<path class="lead s{number}" d="{way}"/>')
        grows = ""
        if line.exponent is not None:
            power = f'<tspan dy="-5">{line.exponent:.2f}</tspan>'
            grows = f'<tspan class="power" dx="5">n{power}</tspan>'
        at = f'x="{across.end + 8:.1f}" y="{place + 4:.1f}"'
        parts.append(f'<text class="name f{number}" {at}>{escape(line.name)}{grows}</text>')
    return "\n".join(parts)


def _apart(wanted: Sequence[float], low: float, high: float) -> list[float]:
    """Places in order, as close to those wanted as they can be with room between them."""
    places = list(wanted)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + _APART)
    over = max(0.0, places[-1] - high) if places else 0.0
    for i in range(len(places) - 1, -1, -1):  # push back up what ran out at the bottom
        ceiling = places[i + 1] - _APART if i + 1 < len(places) else places[i] - over
        places[i] = min(places[i], ceiling)
    return [max(place, low - _APART) for place in places]


def _segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _seconds(value: float) -> str:
    """``5 ms``, ``2 s``."""
    for size, unit in ((1, "s"), (1e-3, "ms")):
        if value >= size * 0.999:
            return f"{value / size:,.0f} {unit}"
    return f"{value * 1e6:,.0f} µs"


def _bytes(value: float) -> str:
    """``100 MB``: powers of ten, as the axis has them."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size * 0.999:
            return f"{value / size:,.0f} {unit}"
    return f"{value:,.0f} B"


def _style(count: int) -> str:
    light, dark = [], []
    for number in range(count):
        day, night = _COLOURS[number % len(_COLOURS)]
        dash = f" .line.s{number} {{ stroke-dasharray: 7 4; }}" if number >= len(_COLOURS) else ""
        light.append(f".s{number} {{ stroke: {day}; }} .dot.s{number}, .f{number} {{ fill: {day}; }}{dash}")
        dark.append(f".s{number} {{ stroke: {night}; }} .dot.s{number}, .f{number} {{ fill: {night}; }}")
    return f"""<style>
text {{ font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2933; }}
.page {{ fill: #ffffff; }} .grid {{ stroke: #d5dbe1; }} .fine {{ stroke: #eef1f4; }}
.title {{ font-size: 17px; font-weight: 600; }} .panel {{ font-size: 14px; font-weight: 600; }}
.tick {{ font-size: 12px; fill: #5b6875; }} .small {{ font-size: 11px; fill: #5b6875; }}
.middle {{ text-anchor: middle; }} .end {{ text-anchor: end; }} .name {{ font-weight: 600; }}
.power {{ font-weight: 400; }} .power tspan {{ font-size: 10px; }}
.line {{ fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }}
.lead {{ fill: none; stroke-width: 1; stroke-dasharray: 2 3; opacity: 0.8; }}
{" ".join(light)}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e4e9ee; }} .page {{ fill: #12181f; }} .grid {{ stroke: #35404b; }} .fine {{ stroke: #1d262f; }}
.tick, .small {{ fill: #9aa7b4; }}
{" ".join(dark)}
}}
</style>"""
