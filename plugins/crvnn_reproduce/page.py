"""The page of a table: one HTML file in the form of ``crvnn report``, with its style and its charts."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crvnn_core.display.palette import css_variables
from crvnn_report.charts.axis import Axis
from crvnn_report.charts.plot import Mark, Plot
from crvnn_reproduce.output import heading, here, notes, published, sheet, verdict_sheet
from crvnn_reproduce.results import Results


def page(results: Results) -> str:
    """A table as HTML that loads nothing."""
    style = files("crvnn_report").joinpath("templates", "page.css").read_text("utf-8")
    return _ENVIRONMENT.get_template("reproduce.html.jinja").render(
        title=heading(results),
        charts=[
            (title, chart) for name, title in results.columns.items() if (chart := _chart(results, name))
        ],
        table_of_rows=sheet(results),
        verdicts=verdict_sheet(results),
        notes=notes(results),
        style=Markup(css_variables() + style),
        version=version("crvnn"),
    )


def _chart(results: Results, column: str) -> Markup | None:
    """Published figures and those measured here, row by row; nothing without any."""
    lines = [line for line in results.lines if line.cells[column].published or line.cells[column].values]
    if not lines:
        return None
    both = [(line.cells[column], line.row.title) for line in lines]
    numbers = [value for cell, _ in both for value in cell.values]
    numbers += [cell.published.mean for cell, _ in both if cell.published]
    titles = [title for _, title in both]
    horizontal = Axis(
        "",
        -0.5,
        len(both) - 0.5,
        format=lambda value: titles[round(value)],
        fixed_ticks=[float(number) for number in range(len(both))],
        slanted=sum(map(len, titles)) > 45,
    )
    plot = Plot(horizontal, Axis.fit("Minutes" if results.minutes else "Accuracy, %", numbers))
    marks: list[Mark] = []
    for place, (cell, title) in enumerate(both):
        if cell.published:
            mean = cell.published.mean
            marks.append(plot.line([(place - 0.3, mean), (place + 0.3, mean)], "line run-1"))
        for value in cell.values:
            tooltip = f"{title}: {here(cell)}; published: {published(cell) or 'nothing'}"
            marks.append(plot.dot((float(place), value), "mean run-0", tooltip))
    return plot.draw(column, "A dot for each seed here, a line for the published figure.", marks)


_ENVIRONMENT = Environment(
    loader=PackageLoader("crvnn_reproduce"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
