"""Learning: loss, accuracy, depth and learning rate during training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from markupsafe import Markup

from crvnn_core.display.charts import Axis, Plot
from crvnn_core.display.palette import run_class
from crvnn_core.runs.records import number, read_metrics
from crvnn_report.report import Report

Points = list[tuple[float, float]]
#: Each metric of ``metrics.jsonl`` that is drawn, the label of its chart, and the factor to its unit.
_METRICS = (
    ("loss", "Loss", 1.0),
    ("accuracy", "Accuracy, %", 100.0),
    ("depth", "Depth, steps", 1.0),
    ("learning_rate", "Learning rate", 1.0),
)
_POINTS = 160  # of a line
_WINDOW = 0.12  # half the width of the smoothing window, as a part of the line
_DOTS = 40  # of one run
_UNSMOOTHED = 2  # runs up to which unsmoothed lines are drawn as well


def learning(report: Report) -> dict[str, Any]:
    """A chart for each metric of which a run has values."""
    runs = [
        (run_class(colour), run.name, list(read_metrics(run.directory.metrics)))
        for colour, variant in enumerate(report.variants)
        for run in variant.runs
    ]
    charts = []
    for metric, label, scale in _METRICS:
        curves = [_curve(css, name, rows, metric, scale) for css, name, rows in runs]
        drawn = [curve for curve in curves if curve.unsmoothed or curve.dev]
        if drawn:
            charts.append((label, _chart(metric, label, drawn)))
    return {"charts": charts}


@frozen
class _Curve:
    """One metric of one run by step, on training batches and on the development split."""

    css: str  # the class that gives the variant's colour
    run: str
    unsmoothed: Points
    points: Points
    dev: Points


def _curve(css: str, run: str, rows: Sequence[Mapping[str, Any]], metric: str, scale: float) -> _Curve:
    train, dev = (
        [
            (float(row["step"]), scale * value)
            for row in rows
            if row.get("kind") == kind and (value := number(row.get(metric))) is not None
        ]
        for kind in ("train", "dev")
    )
    points = downsampled(train)
    return _Curve(css, run, points, points if metric == "learning_rate" else smoothed(points), dev)


def _chart(metric: str, label: str, drawn: Sequence[_Curve]) -> Markup:
    """One metric of all runs by step."""
    unsmoothed = len(drawn) <= _UNSMOOTHED and metric != "learning_rate"
    values = [y for curve in drawn for _, y in (*curve.points, *curve.dev)]
    if unsmoothed:
        values += [y for curve in drawn for y in _bulk([y for _, y in curve.unsmoothed])]
    steps = [x for curve in drawn for x, _ in (*curve.unsmoothed, *curve.dev)]
    plot = Plot(Axis.fit("step", [0.0, *steps], zero=True), _y_axis(metric, label, values))
    marks: list[Markup] = []
    if unsmoothed:
        marks += [plot.line(_clipped(plot, curve.unsmoothed), f"raw {curve.css}") for curve in drawn]
    marks += [plot.line(curve.points, f"line {curve.css}") for curve in drawn if curve.points]
    marks += [
        plot.dot(
            (step, value),
            f"dev {curve.css}",
            f"{curve.run}, development at step {step:,.0f}: {value:.4g}",
            3.6 if len(drawn) <= 3 else 2.6,
        )
        for curve in drawn
        for step, value in _some(curve.dev)
    ]
    ends = "; ".join(f"{curve.run} ends at {curve.points[-1][1]:.3g}" for curve in drawn[:8] if curve.points)
    description = f"{label} over {max(steps):,.0f} steps of training. {ends}."
    return plot.draw(f"{label} during training", description, marks)


def downsampled(points: Points, most: int = _POINTS) -> Points:
    """At most ``most`` points, each the mean of a stretch of the line."""
    if len(points) <= most:
        return list(points)
    found = []
    for place in range(most):
        part = points[place * len(points) // most : (place + 1) * len(points) // most]
        found.append((statistics.fmean(x for x, _ in part), statistics.fmean(y for _, y in part)))
    return found


def smoothed(points: Points, window: float = _WINDOW) -> Points:
    """Each point as the mean of its surroundings, weighted by a truncated Gaussian.

    :param window: to either side, as a part of the line.
    """
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
        used = [weights[abs(first + number - place)] for number in range(len(around))]
        found.append((x, sum(w * y for w, (_, y) in zip(used, around, strict=True)) / sum(used)))
    return found


def _some(points: Points) -> Points:
    """Evenly spaced points, few enough to be told apart, with the last one."""
    every = max(1, -(-len(points) // _DOTS))
    return [*points[:-1:every], *points[-1:]]


def _bulk(values: Sequence[float]) -> list[float]:
    """The range of the values without the outermost 2% at either end."""
    ordered = sorted(values)
    return [ordered[len(ordered) // 50], ordered[-1 - len(ordered) // 50]] if ordered else []


def _y_axis(metric: str, label: str, values: Sequence[float]) -> Axis:
    if metric == "accuracy":
        floor = next(edge for edge in (99, 98, 95, 90, 80, 50, 0) if min(values) >= edge or edge == 0)
        step = (100 - floor) / 5
        ticks = [floor + step * number for number in range(6)]
        return Axis(label, floor - 0.2 * step, 100 + 0.2 * step, fixed_ticks=ticks)
    log = metric == "loss" and min(values) > 0 and max(values) / min(values) > 40
    return Axis.fit(label, values, log=log, zero=not log)


def _clipped(plot: Plot, points: Points) -> Points:
    """Points with values outside the plot moved to its edge."""
    low, high = plot.y_axis.low, plot.y_axis.high
    return [(x, min(max(y, low), high)) for x, y in points]
