"""Depth against length: how many steps the recursion takes for each example."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from crvnn_core.display.charts import Axis, Mark, Plot
from crvnn_core.display.palette import run_class
from crvnn_report.models import VariantModel
from crvnn_report.report import Report

_LOG_FROM = 12  # ratio of the longest to the shortest sequence above which the axes are logarithmic
_TREND = 12  # points of the line through the means


def context(report: Report) -> dict[str, Any]:
    """A chart for each model that has predictions."""
    charts = depth_charts(report.models)
    return {
        "sample": report.sample_text,
        "reason": "" if charts else report.sample.problem or "No model could be loaded.",
        "charts": [(colour, report.names[colour], chart) for colour, chart in charts.items()],
    }


def depth_charts(models: Sequence[VariantModel]) -> dict[int, Markup]:
    """By the index of a model, the steps of every example against its length, all on the same axes.

    Two lines show what a left-to-right chain and a balanced tree would take.
    """
    counted = {
        index: Counter((one.length, max(one.steps, 1.0)) for one in model.predictions if one.length > 1)
        for index, model in enumerate(models)
    }
    points = [point for counts in counted.values() for point in counts]
    if not points:
        return {}
    lengths, steps = [x for x, _ in points], [y for _, y in points]
    log = max(lengths) / min(lengths) > _LOG_FROM
    plot = Plot(
        Axis.fit("tokens of the sequence", lengths, log=log, zero=not log),
        Axis.fit("Depth, steps", [*steps, 1.0], log=log, zero=not log),
    )
    return {
        index: _chart(plot, index, models[index].variant.name, counts)
        for index, counts in counted.items()
        if counts
    }


def _chart(plot: Plot, index: int, name: str, counts: Counter[tuple[float, float]]) -> Markup:
    marks: list[Mark] = [
        *_guide(plot, "chain", lambda n: n - 1),
        *_guide(plot, "balanced", math.log2),
    ]
    for (length, steps), times in sorted(counts.items()):
        radius = min(2.4 + 0.8 * math.log2(times), 6.5)
        tooltip = f"{times} of {length:g} tokens: {steps:g} steps"
        marks.append(plot.dot((length, steps), f"example-dot {run_class(index)}", tooltip, radius))
    marks.append(plot.line(_trend(counts), f"line {run_class(index)}"))
    mean = statistics.fmean(steps for _, steps in counts.elements())
    description = f"{counts.total():,} examples of {name}; {mean:.1f} steps on average."
    return plot.draw(f"Depth of the recursion against length: {name}", description, marks)


def _guide(plot: Plot, css: str, steps: Callable[[float], float]) -> list[Mark]:
    """The steps of a tree of a known shape by length, within the axes."""
    low, high = max(plot.x_axis.low, 2.0), plot.x_axis.high
    lengths = [low * (high / low) ** (i / 120) for i in range(121)]
    points = [(n, steps(n)) for n in lengths if plot.y_axis.low <= steps(n) <= plot.y_axis.high]
    return [plot.line(points, f"guide {css}")] if len(points) > 1 else []


def _trend(counts: Counter[tuple[float, float]]) -> list[tuple[float, float]]:
    """Means of length and steps in about a dozen portions, from short to long."""
    every = sorted(counts.elements())
    portions = max(1, min(_TREND, len(every) // 5))
    found = []
    for part in range(portions):
        some = every[part * len(every) // portions : (part + 1) * len(every) // portions]
        found.append((statistics.fmean(x for x, _ in some), statistics.fmean(y for _, y in some)))
    return found
