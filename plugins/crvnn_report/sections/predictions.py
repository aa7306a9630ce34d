"""Predictions for the sample: depth against length, and which labels are taken for which."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from crvnn_core.display.charts import Axis, Matrix, Plot
from crvnn_core.display.palette import run_class
from crvnn_core.runs.comparison import percent
from crvnn_report.report import Prediction, Report, VariantModel
from crvnn_report.sections.learning import downsampled

_LOG_FROM = 12  # ratio of the longest to the shortest sequence above which the axes are logarithmic
_TREND = 12  # points of the line through the means
_CLASSES = 40  # up to which a matrix is drawn
_ALL_CLASSES = 12  # up to which classes that do not occur are drawn as well
_NUMBERS = 16  # classes up to which the counts are written in the cells


def depth(report: Report) -> dict[str, Any]:
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
        index: _depth_chart(plot, index, models[index].variant.name, counts)
        for index, counts in counted.items()
        if counts
    }


def _depth_chart(plot: Plot, index: int, name: str, counts: Counter[tuple[float, float]]) -> Markup:
    marks: list[Markup] = [
        *_guide(plot, "chain", lambda n: n - 1),
        *_guide(plot, "balanced", math.log2),
    ]
    for (length, steps), times in sorted(counts.items()):
        radius = min(2.4 + 0.8 * math.log2(times), 6.5)
        tooltip = f"{times} of {length:g} tokens: {steps:g} steps"
        marks.append(plot.dot((length, steps), f"example-dot {run_class(index)}", tooltip, radius))
    every = sorted(counts.elements())
    means = downsampled(every, max(1, min(_TREND, len(every) // 5)))
    marks.append(plot.line(means, f"line {run_class(index)}"))
    mean = statistics.fmean(steps for _, steps in every)
    description = f"{counts.total():,} examples of {name}; {mean:.1f} steps on average."
    return plot.draw(f"Depth of the recursion against length: {name}", description, marks)


def _guide(plot: Plot, css: str, steps: Callable[[float], float]) -> list[Markup]:
    """The steps of a tree of a known shape by length, within the axes."""
    low, high = max(plot.x_axis.low, 2.0), plot.x_axis.high
    lengths = [low * (high / low) ** (i / 120) for i in range(121)]
    points = [(n, steps(n)) for n in lengths if plot.y_axis.low <= steps(n) <= plot.y_axis.high]
    return [plot.line(points, f"guide {css}")] if len(points) > 1 else []


def confusion(report: Report) -> dict[str, Any]:
    """A matrix for each model that has predictions."""
    matrices = []
    for colour, model in enumerate(report.models):
        if model.predictions:
            accuracy = sum(one.correct for one in model.predictions) / len(model.predictions)
            classes = _classes(model)
            matrix = _matrix(model, classes) if len(classes) <= _CLASSES else None
            matrices.append((colour, model.variant.name, percent(accuracy), len(classes), matrix))
    return {
        "sample": report.sample_text,
        "reason": "" if matrices else report.sample.problem or "No model could be loaded.",
        "matrices": matrices,
    }


def confusion_counts(predictions: Sequence[Prediction], classes: Sequence[str]) -> list[list[int]]:
    """For each true label (rows), how often each label (columns) is predicted."""
    index = {name: i for i, name in enumerate(classes)}
    counts = [[0] * len(classes) for _ in classes]
    for one in predictions:
        counts[index[one.gold]][index[one.label]] += 1
    return counts


def _classes(model: VariantModel) -> list[str]:
    """The classes to draw: all, or of many those that occur."""
    assert model.trained is not None
    known = list(model.trained.task.classes)
    if len(known) <= _ALL_CLASSES:
        return known
    found = {one.gold for one in model.predictions} | {one.label for one in model.predictions}
    return [name for name in known if name in found]


def _matrix(model: VariantModel, classes: Sequence[str]) -> Markup:
    counts = confusion_counts(model.predictions, classes)
    totals = [sum(row) for row in counts]
    matrix = Matrix(
        classes,
        classes,
        [[count / (total or 1) for count in row] for row, total in zip(counts, totals, strict=True)],
        lambda i, j: f"{counts[i][j]:,}" if counts[i][j] and len(classes) <= _NUMBERS else "",
        lambda i, j: f"true {classes[i]}, predicted {classes[j]}: {counts[i][j]:,} of {totals[i]:,}",
        x_label="predicted label",
        y_label="true label",
        framed=frozenset(
            (i, j) for i, row in enumerate(counts) for j, count in enumerate(row) if count and i != j
        ),
    )
    wrong = sum(not one.correct for one in model.predictions)
    size = max(18.0, min(46.0, 340 / len(classes)))
    description = f"{wrong:,} of {len(model.predictions):,} examples are misclassified."
    title = f"Confusion matrix of {model.variant.name}"
    return matrix.draw(title, description, "share", (size, min(size, 34.0)))
