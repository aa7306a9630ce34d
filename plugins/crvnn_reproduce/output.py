"""A table for a terminal and as Markdown."""

from __future__ import annotations

from crvnn_core.display.tables import Table
from crvnn_reproduce.results import Cell, Line, Results

_SIDE_BY_SIDE = 2  # columns up to which the published figure stands beside the one measured here


def sheet(results: Results) -> Table:
    """The rows of a table: with few columns one line each, otherwise one for the paper and one for here."""
    beside = len(results.columns) <= _SIDE_BY_SIDE
    titles = [each for title in results.columns.values() for each in (f"{title}, paper", f"{title}, here")]
    if not beside:
        titles = ["", *results.columns.values()]
    columns = ("row", *titles, "seeds", "time", "remarks")
    rows = [cells for line in results.lines for cells in (_beside if beside else _below)(line)]
    first = 1 if beside else 2
    return Table(columns, tuple(rows), tuple(range(first, len(columns) - 1)))


def verdict_sheet(results: Results) -> Table:
    """The claims, whether each holds here, and by how much."""
    rows = tuple((each.claim.says, each.state, each.detail) for each in results.verdicts)
    return Table(("claim", "here", "differences"), rows, ())


def _beside(line: Line) -> list[tuple[str, ...]]:
    cells = [text for cell in line.cells.values() for text in (published(cell), here(cell))]
    return [(line.row.title, *cells, *_rest(line))]


def _below(line: Line) -> list[tuple[str, ...]]:
    paper = (line.row.title, "paper", *map(published, line.cells.values()), "", "", line.row.source)
    ours = ("", "here", *map(here, line.cells.values()), *_rest(line))
    return [paper, ours]


def _rest(line: Line) -> tuple[str, str, str]:
    seeds = str(line.seeds) if line.seeds else ""
    return seeds, duration(line.hours) if line.hours else "", line.remark


def published(cell: Cell) -> str:
    """The published figure as it was printed."""
    return cell.published.text if cell.published else ""


def here(cell: Cell) -> str:
    """Mean and standard deviation over seeds."""
    if cell.mean is None:
        return ""
    digits = 3 if 0 < cell.mean < 1 else 1
    return f"{cell.mean:.{digits}f}" + ("" if cell.spread is None else f" ± {cell.spread:.{digits}f}")


def duration(hours: float) -> str:
    """Hours, or minutes of less than one."""
    return f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"


def heading(results: Results) -> str:
    """What the table is, in a line."""
    return f"{results.plan.table.title}, {budget_label(results)}"


def budget_label(results: Results) -> str:
    """The budget, so that nobody takes a laptop's for the paper's."""
    return "budget of a laptop" if results.plan.budget == "laptop" else "budget of the paper"


def notes(results: Results) -> list[str]:
    """What a reader of the table should know."""
    plan = results.plan
    unit = "minutes for 50 expressions" if results.minutes else "accuracy in percent"
    found = [f"Here: {unit}, mean ± standard deviation over seeds, with the {budget_label(results)}."]
    found += [f"{title}: {data}." for title, data in results.data.items()]
    if plan.budget == "laptop":
        found.append(
            "A laptop's budget is far smaller than the paper's: narrower models, shorter rows and fewer steps. "
            "Compare rows with each other, not with the published figures."
        )
    if results.verdicts:
        found.append(
            "A claim holds, or does not, where the difference is beyond the spread over seeds: no significance test."
        )
    found.append("Time: of all runs of the row; processor time on a CPU.")
    found += [f"Measured on {machine}." for machine in results.machines]
    if plan.table.source:
        found.append(f"Published: {plan.table.source}.")
    return [*found, *filter(None, [plan.table.note])]


def markdown(results: Results) -> str:
    """The whole table as Markdown."""
    parts = [f"# {heading(results)}\n", sheet(results).markdown()]
    if results.verdicts:
        parts += ["## Claims\n", verdict_sheet(results).markdown()]
    parts += ["## Notes\n", "".join(f"- {note}\n" for note in notes(results))]
    return "\n".join(parts)
