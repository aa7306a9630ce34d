"""Learning curves: what was measured at every step, thinned to what an eye can see."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from attrs import frozen

from crvnn_core.runs.records import Record, Variant, lines, number
from crvnn_report.svg import Axis, Plot

Points = list[tuple[float, float]]
#: A measure, what it is called, and what it is multiplied by.
SHOWN = (
    ("loss", "Loss", 1.0),
    ("accuracy", "Accuracy, %", 100.0),
    ("depth", "Depth, steps", 1.0),
    ("learning_rate", "Learning rate", 1.0),
)
_POINTS = 160  # of a line
_WINDOW = 0.12  # of the line that a smoothed point looks at, to either side
_DOTS = 40  # of one run
_NOISY = 2  # runs up to which unsmoothed lines are drawn as well


@frozen
class Curve:
    """One measure of one run: at the steps of training, and at its looks at the development split."""

    run: str
    train: Points
    dev: Points


def read_curves(record: Record) -> dict[str, Curve]:
    """By measure, what a run wrote down of it."""
    train: dict[str, Points] = {name: [] for name, _, _ in SHOWN}
    dev: dict[str, Points] = {name: [] for name, _, _ in SHOWN}
    for row in lines(record.directory.metrics):
        kept = {"train": train, "dev": dev}.get(str(row.get("kind")))
        for name, _, scale in SHOWN if kept is not None else ():
            value = number(row.get(name))
            if value is not None and kept is not None:
                kept[name].append((float(row["step"]), scale * value))
    return {
        name: Curve(record.name, train[name], dev[name]) for name, _, _ in SHOWN if train[name] or dev[name]
    }


def thinned(points: Points, most: int = _POINTS) -> Points:
    """At most so many points, each the mean of those it stands for."""
    if len(points) <= most:
        return list(points)
    found = []
    for place in range(most):
        part = points[place * len(points) // most : (place + 1) * len(points) // most]
        found.append((statistics.fmean(x for x, _ in part), statistics.fmean(y for _, y in part)))
    return found


def smoothed(points: Points, window: float = _WINDOW) -> Points:
    """Each point as a mean of those around it, in which the near ones count most."""
    reach = len(points) * window
    weights = (
        [math.exp(-0.5 * (2.5 * near / reach) ** 2) for near in range(int(reach) + 1)]
        if reach >= 1
        else [1.0]
    )
    found = []
    for place, (x, _) in enumerate(points):
        first = max(0, place - len(weights) + 1)
        around = points[first : place + len(weights)]
        counted = [weights[abs(first + number - place)] for number in range(len(around))]
        found.append((x, sum(w * y for w, (_, y) in zip(counted, around, strict=True)) / sum(counted)))
    return found


@frozen
class _Drawn:
    """A curve as it is drawn."""

    colour: int
    name: str
    raw: Points
    line: Points
    dev: Points


def chart(measure: str, label: str, variants: Sequence[Variant], curves: dict[str, dict[str, Curve]]) -> str:
    """One measure of all runs over steps; empty if none has it.

    :param curves: by run and measure.
    """
    drawn = [
        _drawn(colour, curves[run.name][measure], smooth=measure != "learning_rate")
        for colour, variant in enumerate(variants)
        for run in variant.runs
        if measure in curves[run.name]
    ]
    if not drawn:
        return ""
    noisy = len(drawn) <= _NOISY and measure != "learning_rate"
    values = [y for one in drawn for _, y in (*one.line, *one.dev)]
    values += [y for one in drawn for y in _most([y for _, y in one.raw])] if noisy else []
    steps = [x for one in drawn for x, _ in (*one.raw, *one.dev)]
    plot = Plot(Axis.around("step", [0.0, *steps], zero=True), _upward(measure, label, values))
    parts = [plot.line(_inside(plot, one.raw), f"raw s{one.colour % 8}") for one in drawn if noisy]
    parts += [plot.line(one.line, f"line s{one.colour % 8}") for one in drawn if one.line]
    parts += [
        plot.dot(
            point,
            f"dev s{one.colour % 8}",
            f"{one.name}, development at step {point[0]:,.0f}: {point[1]:.4g}",
            3.6 if len(drawn) <= 3 else 2.6,
        )
        for one in drawn
        for point in _some(one.dev)
    ]
    ends = "; ".join(f"{one.name} ends at {one.line[-1][1]:.3g}" for one in drawn[:8] if one.line)
    what = f"{label} over {max(steps):,.0f} steps of training. {ends}."
    return plot.drawn(f"{label} during training", what, "".join(parts))


def _drawn(colour: int, curve: Curve, *, smooth: bool) -> _Drawn:
    raw = thinned(curve.train)
    return _Drawn(colour, curve.run, raw, smoothed(raw) if smooth else raw, curve.dev)


def _some(points: Points) -> Points:
    """So few that they can be told apart, the last one among them."""
    every = max(1, -(-len(points) // _DOTS))
    return [*points[:-1:every], *points[-1:]]


def _most(values: Sequence[float]) -> list[float]:
    """From the least to the most, but for the few that lie far out."""
    ordered = sorted(values)
    return [ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]] if ordered else []


def _upward(measure: str, label: str, values: Sequence[float]) -> Axis:
    if measure == "accuracy":
        floor = next(edge for edge in (99, 98, 95, 90, 80, 50, 0) if min(values) >= edge or edge == 0)
        step = (100 - floor) / 5
        marks = [floor + step * number for number in range(6)]
        return Axis(label, floor - 0.2 * step, 100 + 0.2 * step, fixed=marks)
    wide = measure == "loss" and min(values) > 0 and max(values) / min(values) > 40
    return Axis.around(label, values, logarithmic=wide, zero=not wide)


def _inside(plot: Plot, points: Points) -> Points:
    """What is too far up or down is drawn at the edge."""
    low, high = plot.upward.low, plot.upward.high
    return [(x, min(max(y, low), high)) for x, y in points]
