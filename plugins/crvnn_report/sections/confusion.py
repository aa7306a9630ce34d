"""Confusion: for each true label, how often each label is predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from crvnn_core.display.charts import Matrix
from crvnn_core.runs.comparison import percent
from crvnn_report.models import Prediction, VariantModel
from crvnn_report.report import Report

_CLASSES = 40  # up to which a matrix is drawn
_ALL_CLASSES = 12  # up to which classes that do not occur are drawn as well
_NUMBERS = 16  # classes up to which the counts are written in the cells


def context(report: Report) -> dict[str, Any]:
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
