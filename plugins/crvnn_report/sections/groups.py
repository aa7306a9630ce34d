"""By length and group: accuracy and depth in each group of a split, or by length where the task has no groups."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from attrs import frozen
from markupsafe import Markup

from crvnn_core.display.charts import Axis, Plot
from crvnn_core.display.palette import run_class
from crvnn_core.runs import records
from crvnn_report.report import Report, VariantModel
from crvnn_report.sections.runs import mean_and_deviation

#: Examples below which a group's dot is hollow: sampling error alone is ten points and more.
FEW = 30
_LABELS = {"accuracy": "Accuracy, %", "depth": "Mean depth, steps"}
_OFFSET = 0.12  # between variants, as a part of the distance between groups
_RANGES = 6  # of lengths


@frozen
class _Series:
    """A metric of one variant by group."""

    variant: str
    #: By group, the value of each run.
    values: list[list[float]]
    #: By group, the number of examples.
    counts: list[int]

    @property
    def any_few(self) -> bool:
        """Whether there is a group of few examples."""
        return any(values and count < FEW for values, count in zip(self.values, self.counts, strict=True))


def groups(report: Report) -> dict[str, Any]:
    """Charts and a table for each split that has groups, the last split first; else a chart by length."""
    by_split = {split: names for split, names in records.groups(report.variants).items() if names}
    if by_split:
        return _by_group(report, by_split)
    series, ranges = _by_length(report.models)
    if not ranges:
        reason = (
            "The task defines no groups"
            if any(records.groups(report.variants))
            else "There are no results yet"
        )
        return {"few": FEW, "splits": [], "reason": f"{reason}. {report.sample.problem}".strip()}
    chart = _chart("tokens", ranges, series, _LABELS["accuracy"])
    return {
        "few": FEW,
        "splits": [],
        "reason": "",
        "chart": chart,
        "sample": report.sample_text,
        "any_few": any(one.any_few for one in series),
    }


def _by_group(report: Report, by_split: dict[str, list[str]]) -> dict[str, Any]:
    splits, any_few = [], False
    for split, names in reversed(by_split.items()):
        charts = []
        for metric, scale in (("accuracy", 100.0), ("depth", 1.0)):
            series = [
                _Series(
                    variant.name,
                    [[scale * value for value in variant.values(split, name, metric)] for name in names],
                    [int(min(variant.values(split, name, "examples"), default=0)) for name in names],
                )
                for variant in report.variants
            ]
            any_few = any_few or any(one.any_few for one in series)
            label = _LABELS[metric]
            charts.append(
                (label.replace(",", f" on {split},"), _chart(f"group of {split}", names, series, label))
            )
        rows = []
        for name in names:
            counts = {
                count for variant in report.variants for count in variant.values(split, name, "examples")
            }
            numbers = [
                mean_and_deviation(variant, split, name, metric, 1)
                for variant in report.variants
                for metric in ("accuracy", "depth")
            ]
            rows.append((name, " / ".join(f"{count:,.0f}" for count in sorted(counts)), numbers))
        splits.append({"name": split, "charts": charts, "rows": rows})
    return {"few": FEW, "splits": splits, "reason": "", "any_few": any_few}


def _by_length(models: Sequence[VariantModel]) -> tuple[list[_Series], list[str]]:
    """The accuracy of the predictions for the sample in ranges of lengths, and the names of the ranges."""
    ranges = length_ranges(sorted(one.length for model in models for one in model.predictions))
    series = []
    for model in models:
        parts = [[one for one in model.predictions if low <= one.length <= high] for low, high in ranges]
        accuracies = [[100 * statistics.fmean(one.correct for one in part)] if part else [] for part in parts]
        series.append(_Series(model.variant.name, accuracies, [len(part) for part in parts]))
    return series, [f"{low:g}" if low == high else f"{low:g}-{high:g}" for low, high in ranges]


def length_ranges(lengths: Sequence[float], most: int = _RANGES) -> list[tuple[float, float]]:
    """Disjoint ranges that hold about equally many of the lengths, which come in order."""
    found: list[tuple[float, float]] = []
    for part in range(most):
        some = lengths[part * len(lengths) // most : (part + 1) * len(lengths) // most]
        above = [length for length in some if not found or length > found[-1][1]]
        if above:
            found.append((above[0], above[-1]))
    return found


def _chart(x_label: str, names: Sequence[str], series: Sequence[_Series], label: str) -> Markup | None:
    """A line for each variant over groups: means over seeds, with their ranges."""
    every = [value for one in series for values in one.values for value in values]
    if not every:
        return None
    x_axis = Axis.of_names(x_label, names)
    if label == _LABELS["accuracy"]:
        y_axis = Axis(label, -2.0, 103.0, fixed_ticks=range(0, 101, 20))
    else:
        y_axis = Axis.fit(label, every, zero=True)
    plot = Plot(x_axis, y_axis)
    marks: list[Markup] = []
    descriptions = []
    for colour, one in enumerate(series):
        offset = _OFFSET * (colour - (len(series) - 1) / 2) if len(series) < 8 else 0.0
        means = {place: statistics.fmean(values) for place, values in enumerate(one.values) if values}
        points = [(place + offset, mean) for place, mean in means.items()]
        marks.append(plot.line(points, f"line {run_class(colour)}"))
        for place in means:
            marks += _group_marks(plot, one, place, place + offset, names[place], colour)
        listed = ", ".join(f"{names[place]} {mean:.1f}" for place, mean in means.items())
        descriptions.append(f"{one.variant}: {listed}")
    return plot.draw(f"{label} by {x_label}", "; ".join(descriptions), marks)


def _group_marks(plot: Plot, series: _Series, place: int, x: float, name: str, colour: int) -> list[Markup]:
    values, count = series.values[place], series.counts[place]
    mean, low, high = statistics.fmean(values), min(values), max(values)
    tooltip = f"{series.variant}, {name}: {mean:.1f}, {count:,} example{'s' * (count != 1)}"
    css = f"mean{' few' * (count < FEW)} {run_class(colour)}"
    if len(values) == 1:
        return [plot.dot((x, mean), css, tooltip)]
    tooltip += f" (from {low:.1f} to {high:.1f} over {len(values)} seeds)"
    return [plot.range(x, low, high, f"whisker {run_class(colour)}"), plot.dot((x, mean), css, tooltip)]
