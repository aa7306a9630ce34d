"""Learning: loss, accuracy, depth and learning rate during training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from markupsafe import Markup

from crvnn_core.display.charts import Axis, Mark, Plot
from crvnn_core.display.palette import run_class
from crvnn_report.curves import METRICS, Curve, Points, downsampled, smoothed
from crvnn_report.report import Report

_DOTS = 40  # of one run
_UNSMOOTHED = 2  # runs up to which unsmoothed lines are drawn as well


def learning(report: Report) -> dict[str, Any]:
    """A chart for each metric of which a run has values."""
    charts = [(label, _chart(metric, label, report)) for metric, label, _ in METRICS]
    return {"charts": [(label, chart) for label, chart in charts if chart is not None]}


@frozen
class _Line:
    """A curve as it is drawn."""

    series: str  # CSS class that gives the variant's colour
    run: str
    unsmoothed: Points
    points: Points
    dev: Points


def _chart(metric: str, label: str, report: Report) -> Markup | None:
    """One metric of all runs by step."""
    drawn = [
        _line(run_class(colour), report.curves[run.name][metric], smooth=metric != "learning_rate")
        for colour, variant in enumerate(report.variants)
        for run in variant.runs
        if metric in report.curves[run.name]
    ]
    if not drawn:
        return None
    unsmoothed = len(drawn) <= _UNSMOOTHED and metric != "learning_rate"
    values = [y for line in drawn for _, y in (*line.points, *line.dev)]
    values += [y for line in drawn for y in _bulk([y for _, y in line.unsmoothed])] if unsmoothed else []
    steps = [x for line in drawn for x, _ in (*line.unsmoothed, *line.dev)]
    plot = Plot(Axis.fit("step", [0.0, *steps], zero=True), _y_axis(metric, label, values))
    marks: list[Mark] = []
    if unsmoothed:
        marks += [plot.line(_clipped(plot, line.unsmoothed), f"raw {line.series}") for line in drawn]
    marks += [plot.line(line.points, f"line {line.series}") for line in drawn if line.points]
    marks += [
        plot.dot(
            (step, value),
            f"dev {line.series}",
            f"{line.run}, development at step {step:,.0f}: {value:.4g}",
            3.6 if len(drawn) <= 3 else 2.6,
        )
        for line in drawn
        for step, value in _some(line.dev)
    ]
    ends = "; ".join(f"{line.run} ends at {line.points[-1][1]:.3g}" for line in drawn[:8] if line.points)
    description = f"{label} over {max(steps):,.0f} steps of training. {ends}."
    return plot.draw(f"{label} during training", description, marks)


def _line(series: str, curve: Curve, *, smooth: bool) -> _Line:
    points = downsampled(curve.train)
    return _Line(series, curve.run, points, smoothed(points) if smooth else points, curve.dev)


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
