"""The page of a study: one HTML file with plots of its trials, drawn with the charts of all pages."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from markupsafe import Markup

from crvnn_core.display import pages
from crvnn_core.display.charts import Axis, Mark, Matrix, Plot
from crvnn_sweep.output import counted, effect_table, shown_value, text, trial_table
from crvnn_sweep.results import Findings, Row
from crvnn_sweep.settings import Sweep
from crvnn_sweep.space import Choice, Dimension, Range, all_dimensions, short_names


def page(findings: Findings, sweep: Sweep, name: str) -> str:
    """What a study has found, as HTML that loads nothing."""
    return pages.page(
        "crvnn_sweep",
        "sweep",
        brand="crvnn sweep",
        links={"best": "Best", **({"settings": "Settings"} if findings.complete else {}), "trials": "Trials"},
        name=name,
        sweep=sweep,
        counted=counted(findings),
        best=findings.best,
        best_value=shown_value(findings.best, findings) if findings.best else "",
        unit="%" if findings.metric == "accuracy" else "",
        metric=findings.metric,
        history=_history(findings) if findings.complete else None,
        settings=_setting_plots(findings, sweep),
        pairs=_pair_plots(findings, sweep),
        trials=trial_table(findings),
        effects=effect_table(findings),
    )


def _scaled(value: float, findings: Findings) -> float:
    return 100 * value if findings.metric == "accuracy" else value


def _label(findings: Findings) -> str:
    return "Accuracy, %" if findings.metric == "accuracy" else "Loss"


def _tooltip(row: Row, findings: Findings) -> str:
    settings = ", ".join(f"{name}={text(value)}" for name, value in row.params.items())
    return f"trial {row.number}: {shown_value(row, findings)}; {settings}"


def _history(findings: Findings) -> Markup:
    """The value of every complete trial by number, and the best so far."""
    rows = sorted(findings.complete, key=lambda row: row.number)
    points = [(float(row.number), _scaled(row.value or 0.0, findings)) for row in rows]
    plot = Plot(Axis.fit("Trial", [x for x, _ in points]), Axis.fit(_label(findings), [y for _, y in points]))
    better = max if findings.maximised else min
    best = [(x, better(y for _, y in points[: number + 1])) for number, (x, _) in enumerate(points)]
    steps = [best[0]]
    for (_, before), (x, y) in itertools.pairwise(best):
        steps += [(x, before), (x, y)]
    marks: list[Mark] = [plot.line(steps, "line run-1")]
    marks += [
        plot.dot(point, "mean run-0", _tooltip(row, findings))
        for point, row in zip(points, rows, strict=True)
    ]
    return plot.draw("Trials", "The value of each trial, and the best so far as a line.", marks)


def _setting_plots(findings: Findings, sweep: Sweep) -> list[tuple[str, str, Markup]]:
    """For each setting its name, its importance and a plot of the trials by its value; the most important first."""
    by_name = {dimension.name: dimension for dimension in all_dimensions(sweep.dimensions)}
    short = short_names(list(by_name))
    found = []
    for name, share in findings.importance.items():
        rows = [row for row in findings.complete if name in row.params]
        found.append((short[name], f"{100 * share:.0f}%", _setting_plot(by_name[name], rows, findings)))
    return found


def _setting_plot(dimension: Dimension, rows: Sequence[Row], findings: Findings) -> Markup:
    values = [_scaled(row.value or 0.0, findings) for row in rows]
    vertical = Axis.fit(_label(findings), values)
    marks: list[Mark] = []
    if isinstance(dimension, Range):
        horizontal = Axis.fit(dimension.name, [row.params[dimension.name] for row in rows], log=dimension.log)
        plot = Plot(horizontal, vertical)
        places = [float(row.params[dimension.name]) for row in rows]
    else:
        labels = [str(option.label) for option in dimension.options]
        horizontal = Axis.of_names("", labels)  # the caption says what it is
        plot = Plot(horizontal, vertical)
        places = [float(labels.index(str(row.params[dimension.name]))) for row in rows]
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
    found = []
    for number, one in enumerate(choices[:4]):
        for two in choices[number + 1 : 4]:
            title = f"{short[one.name]} and {short[two.name]}"
            found.append((title, _pair_plot(one, two, findings)))
    return found


def _pair_plot(one: Choice, two: Choice, findings: Findings) -> Markup:
    best: dict[tuple[int, int], Row] = {}
    for row in findings.complete:  # the best first
        if one.name in row.params and two.name in row.params:
            i, j = (d.values().index(row.params[d.name]) for d in (one, two))
            best.setdefault((i, j), row)
    values = [row.value or 0.0 for row in best.values()]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    spread = (high - low) or 1.0

    def shade(i: int, j: int) -> float:
        if (i, j) not in best:
            return 0.0
        share = ((best[i, j].value or 0.0) - low) / spread
        return 0.1 + 0.9 * (share if findings.maximised else 1 - share)

    shape = (range(len(one.options)), range(len(two.options)))
    matrix = Matrix(
        rows=[str(label) for label in one.values()],
        columns=[str(label) for label in two.values()],
        values=[[shade(i, j) for j in shape[1]] for i in shape[0]],
        text=lambda i, j: shown_value(best[i, j], findings).partition(" ")[0] if (i, j) in best else "",
        tooltip=lambda i, j: _tooltip(best[i, j], findings) if (i, j) in best else "no complete trial",
    )
    return matrix.draw(f"{one.name} and {two.name}", "The best value of each combination.", "share", (64, 26))
