"""The page of a table: one HTML file with the style and the charts of all pages."""

from __future__ import annotations

from markupsafe import Markup

from crvnn_core.display import pages
from crvnn_core.display.charts import Axis, Mark, Plot
from crvnn_reproduce.output import heading, here, notes, published, sheet, verdict_sheet
from crvnn_reproduce.results import Results


def page(results: Results) -> str:
    """A table as HTML that loads nothing."""
    verdicts = verdict_sheet(results)
    return pages.page(
        "crvnn_reproduce",
        "reproduce",
        brand="crvnn reproduce",
        links={"rows": "Rows", **({"claims": "Claims"} if verdicts.rows else {}), "notes": "Notes"},
        title=heading(results),
        charts=[
            (title, chart) for name, title in results.columns.items() if (chart := _chart(results, name))
        ],
        table_of_rows=sheet(results),
        verdicts=verdicts,
        notes=notes(results),
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
    horizontal = Axis.of_names("", titles)
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
