"""The pages of a study and of a table: one HTML file with the style and the charts of all pages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from markupsafe import Markup

from crvnn_core.display.charts import Axis, Matrix, Plot
from crvnn_core.display.pages import page
from crvnn_experiments.findings import Findings, Row, as_text
from crvnn_experiments.results import Results
from crvnn_experiments.settings import Sweep
from crvnn_experiments.space import Choice, Dimension, Range, all_dimensions, short_names


def table_page(results: Results) -> str:
    """A table of ``crvnn reproduce`` as HTML that loads nothing."""
    charts = [(title, _column_chart(results, name)) for name, title in results.columns.items()]
    return page(
        "crvnn_experiments",
        "reproduce",
        brand="crvnn reproduce",
        links={"rows": "Rows", **({"claims": "Claims"} if results.verdicts else {}), "notes": "Notes"},
        results=results,
        charts=[(title, chart) for title, chart in charts if chart],
    )


def _column_chart(results: Results, column: str) -> Markup | None:
    """Published figures and those measured here, row by row; nothing without any."""
    both = [
        (cell, line.row.title)
        for line in results.lines
        if (cell := line.cells[column]).published or cell.values
    ]
    if not both:
        return None
    numbers = [value for cell, _ in both for value in cell.values]
    numbers += [cell.published.mean for cell, _ in both if cell.published]
    names = Axis.of_names("", [title for _, title in both])
    plot = Plot(names, Axis.fit("Minutes" if results.minutes else "Accuracy, %", numbers))
    marks: list[Markup] = []
    for place, (cell, title) in enumerate(both):
        if cell.published:
            mean = cell.published.mean
            marks.append(plot.line([(place - 0.3, mean), (place + 0.3, mean)], "line run-1"))
        for value in cell.values:
            tooltip = f"{title}: {cell.here}; published: {cell.paper or 'nothing'}"
            marks.append(plot.dot((float(place), value), "mean run-0", tooltip))
    return plot.draw(column, "A dot for each seed here, a line for the published figure.", marks)


def sweep_page(findings: Findings, sweep: Sweep, name: str) -> str:
    """What a study has found, as HTML that loads nothing."""
    return page(
        "crvnn_experiments",
        "sweep",
        brand="crvnn sweep",
        links={"best": "Best", **({"settings": "Settings"} if findings.complete else {}), "trials": "Trials"},
        name=name,
        sweep=sweep,
        findings=findings,
        history=_history(findings) if findings.complete else None,
        settings=_setting_plots(findings, sweep),
        pairs=_pair_plots(findings, sweep),
    )


def _scaled(row: Row, findings: Findings) -> float:
    return (100 if findings.metric == "accuracy" else 1) * (row.value or 0.0)


def _axis(findings: Findings, values: Sequence[float]) -> Axis:
    return Axis.fit("Accuracy, %" if findings.metric == "accuracy" else "Loss", values)


def _tooltip(row: Row, findings: Findings) -> str:
    settings = ", ".join(f"{name}={as_text(value)}" for name, value in row.params.items())
    return f"trial {row.number}: {findings.value(row)}; {settings}"


def _history(findings: Findings) -> Markup:
    """The value of every complete trial by number, and the best so far."""
    rows = sorted(findings.complete, key=lambda row: row.number)
    points = [(float(row.number), _scaled(row, findings)) for row in rows]
    plot = Plot(Axis.fit("Trial", [x for x, _ in points]), _axis(findings, [y for _, y in points]))
    better = max if findings.maximised else min
    best = list(itertools.accumulate((y for _, y in points), better))
    steps = [(points[0][0], best[0])]
    for (x, _), (before, now) in zip(points[1:], itertools.pairwise(best), strict=True):
        steps += [(x, before), (x, now)]
    marks: list[Markup] = [plot.line(steps, "line run-1")]
    for point, row in zip(points, rows, strict=True):
        marks.append(plot.dot(point, "mean run-0", _tooltip(row, findings)))
    return plot.draw("Trials", "The value of each trial, and the best so far as a line.", marks)


def _setting_plots(findings: Findings, sweep: Sweep) -> list[tuple[str, str, Markup]]:
    """For each setting its name, its importance and a plot of the trials by its value; the most important first."""
    by_name = {dimension.name: dimension for dimension in all_dimensions(sweep.dimensions)}
    short = short_names(list(by_name))
    return [
        (short[name], f"{100 * share:.0f}%", _setting_plot(by_name[name], findings))
        for name, share in findings.importance.items()
    ]


def _setting_plot(dimension: Dimension, findings: Findings) -> Markup:
    rows = [row for row in findings.complete if dimension.name in row.params]
    values = [_scaled(row, findings) for row in rows]
    vertical = _axis(findings, values)
    marks: list[Markup] = []
    if isinstance(dimension, Range):
        places = [float(row.params[dimension.name]) for row in rows]
        plot = Plot(Axis.fit(dimension.name, places, log=dimension.log), vertical)
    else:
        labels = [str(label) for label in dimension.values()]
        places = [float(labels.index(str(row.params[dimension.name]))) for row in rows]
        plot = Plot(Axis.of_names("", labels), vertical)  # the caption says what it is
        for number in range(len(labels)):
            own = [value for place, value in zip(places, values, strict=True) if place == number]
            if own:
                mean = sum(own) / len(own)
                marks.append(plot.line([(number - 0.3, mean), (number + 0.3, mean)], "line run-1"))
    for place, value, row in zip(places, values, rows, strict=True):
        marks.append(plot.dot((place, value), "mean run-0", _tooltip(row, findings)))
    return plot.draw(dimension.name, "The value of each trial by this setting.", marks)


def _pair_plots(findings: Findings, sweep: Sweep) -> list[tuple[str, Markup]]:
    """A matrix of the best value for each two settings that are choices, the most important first."""
    choices = [d for d in sweep.dimensions if isinstance(d, Choice) and len(d.options) > 1]
    choices.sort(key=lambda dimension: -findings.importance.get(dimension.name, 0.0))
    short = short_names([dimension.name for dimension in choices])
    return [
        (f"{short[one.name]} and {short[two.name]}", _pair_plot(one, two, findings))
        for one, two in itertools.combinations(choices[:4], 2)
    ]


def _pair_plot(one: Choice, two: Choice, findings: Findings) -> Markup:
    best: dict[tuple[int, int], Row] = {}
    for row in findings.complete:  # the best first
        if one.name in row.params and two.name in row.params:
            i, j = (d.values().index(row.params[d.name]) for d in (one, two))
            best.setdefault((i, j), row)
    values = [row.value or 0.0 for row in best.values()]
    low, spread = min(values, default=0.0), (max(values, default=1.0) - min(values, default=0.0)) or 1.0

    def shade(i: int, j: int) -> float:
        if (i, j) not in best:
            return 0.0
        share = ((best[i, j].value or 0.0) - low) / spread
        return 0.1 + 0.9 * (share if findings.maximised else 1 - share)

    matrix = Matrix(
        rows=[str(label) for label in one.values()],
        columns=[str(label) for label in two.values()],
        values=[[shade(i, j) for j in range(len(two.options))] for i in range(len(one.options))],
        text=lambda i, j: findings.value(best[i, j]).partition(" ")[0] if (i, j) in best else "",
        tooltip=lambda i, j: _tooltip(best[i, j], findings) if (i, j) in best else "no complete trial",
    )
    return matrix.draw(f"{one.name} and {two.name}", "The best value of each combination.", "share", (64, 26))
