"""A table made from the ledger: what is published and what was measured here, as text, Markdown and JSON."""

from __future__ import annotations

import statistics
from typing import Any

from attrs import frozen

from crvnn_core.display.tables import Table
from crvnn_experiments.definition import Figure, Row
from crvnn_experiments.ledger import Entry
from crvnn_experiments.plan import Plan
from crvnn_experiments.verdicts import METHOD, Verdict, judge

_SIDE_BY_SIDE = 2  # columns up to which the published figure stands beside the one measured here
_LABELS = {"laptop": "budget of a laptop", "soft": "soft budget", "paper": "budget of the paper"}
_ADVICE = {
    "laptop": "A laptop's budget is far smaller than the paper's: narrower models, shorter rows and fewer steps. "
    "Compare rows with each other, not with the published figures.",
    "soft": "The soft budget is smaller than the paper's: narrower models and shorter rows, many small steps. "
    "Decisions are soft at first and stretched later. Compare rows with each other, not with the published figures.",
}


@frozen
class Cell:
    """What is published and what was measured here: percent, or minutes."""

    published: Figure | None
    #: One for each seed.
    values: tuple[float, ...]

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over seeds; ``None`` for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def paper(self) -> str:
        """The published figure as it was printed."""
        return self.published.text if self.published else ""

    @property
    def here(self) -> str:
        """Mean and standard deviation over seeds."""
        if self.mean is None:
            return ""
        digits = 3 if 0 < self.mean < 1 else 1
        return f"{self.mean:.{digits}f}" + ("" if self.spread is None else f" ± {self.spread:.{digits}f}")

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        published = {"mean": self.published.mean, "spread": self.published.spread} if self.published else None
        here = {"mean": self.mean, "spread": self.spread, "seeds": list(self.values)} if self.values else None
        return {"published": published, "here": here}


@frozen
class Line:
    """A row of the table."""

    row: Row
    #: By column.
    cells: dict[str, Cell]
    #: The most seeds that a cell has.
    seeds: int
    #: Of all its runs: processor time on a CPU, wall-clock time on a GPU.
    hours: float
    #: Why a figure is missing, and what else to know.
    remark: str

    @property
    def cost(self) -> tuple[str, str, str]:
        """Seeds, time and remark."""
        time = f"{self.hours:.1f} h" if self.hours >= 1 else f"{60 * self.hours:.1f} min"
        return str(self.seeds or ""), time if self.hours else "", self.remark

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "row": self.row.name,
            "title": self.row.title,
            "section": self.row.section,
            "source": self.row.source,
            "cells": {name: cell.plain() for name, cell in self.cells.items()},
            "seeds": self.seeds,
            "hours": self.hours,
            "remark": self.remark,
        }


@frozen
class Results:
    """A table as it is now."""

    plan: Plan
    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def columns(self) -> dict[str, str]:
        """The titles of the columns by name."""
        budget = self.plan.budget
        return {column.name: column.titles.get(budget, column.name) for column in self.plan.table.columns}

    @property
    def minutes(self) -> bool:
        """Whether the figures are minutes."""
        return any(e.is_timing for e in self.plan.table.used.values())

    @property
    def data(self) -> dict[str, str]:
        """The data of each experiment, by its title."""
        used = self.plan.table.used.values()
        return {experiment.title: experiment.budgets[self.plan.budget].data for experiment in used}

    @property
    def machines(self) -> list[str]:
        """The processors and versions of the runs."""
        columns = self.plan.table.columns
        entries = (
            e for line in self.lines for column in columns for e in self.plan.entries(line.row, column)
        )
        return sorted(set(map(_machine, entries)))

    @property
    def heading(self) -> str:
        """What the table is, in a line, with the budget, so that nobody takes a laptop's for the paper's."""
        return f"{self.plan.table.title}, {_LABELS[self.plan.budget]}"

    @property
    def rows(self) -> Table:
        """The rows: with few columns one line each, otherwise one for the paper and one for here."""
        beside = len(self.columns) <= _SIDE_BY_SIDE
        titles = [each for title in self.columns.values() for each in (f"{title}, paper", f"{title}, here")]
        columns = ("row", *(titles if beside else ["", *self.columns.values()]), "seeds", "time", "remarks")
        rows: list[tuple[str, ...]] = []
        for line in self.lines:
            paper = [cell.paper for cell in line.cells.values()]
            here = [cell.here for cell in line.cells.values()]
            if beside:
                both = [text for pair in zip(paper, here, strict=True) for text in pair]
                rows.append((line.row.title, *both, *line.cost))
            else:
                rows.append((line.row.title, "paper", *paper, "", "", line.row.source))
                rows.append(("", "here", *here, *line.cost))
        return Table(columns, rows, range(1 if beside else 2, len(columns) - 1))

    @property
    def claims(self) -> Table:
        """The claims, whether each holds here, by how much, and how probable that is by chance."""
        rows = [
            (
                each.claim.says,
                each.state,
                _p(each.p, each.p_corrected),
                _p(each.p_against, each.p_against_corrected),
                each.detail,
            )
            for each in self.verdicts
        ]
        return Table(("claim", "here", "p", "p against", "differences"), rows)

    @property
    def notes(self) -> list[str]:
        """What a reader of the table should know."""
        plan = self.plan
        unit = "minutes for 50 expressions" if self.minutes else "accuracy in percent"
        found = [f"Here: {unit}, mean ± standard deviation over seeds, with the {_LABELS[plan.budget]}."]
        found += [f"{title}: {data}." for title, data in self.data.items()]
        found += [_ADVICE[plan.budget]] if plan.budget in _ADVICE else []
        found += [METHOD] if self.verdicts else []
        found.append("Time: of all runs of the row; processor time on a CPU.")
        found += [f"Measured on {machine}." for machine in self.machines]
        found += [f"Published: {plan.table.source}."] if plan.table.source else []
        return [*found, *filter(None, [plan.table.note])]

    def markdown(self) -> str:
        """The whole table as Markdown."""
        parts = [f"# {self.heading}\n", self.rows.markdown()]
        if self.verdicts:
            parts += ["## Claims\n", self.claims.markdown()]
        parts += ["## Notes\n", "".join(f"- {note}\n" for note in self.notes)]
        return "\n".join(parts)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        plan = self.plan
        return {
            "table": plan.table.name,
            "title": plan.table.title,
            "source": plan.table.source,
            "budget": plan.budget,
            "measure": "minutes" if self.minutes else "accuracy %",
            "columns": self.columns,
            "data": self.data,
            "machines": self.machines,
            "rows": [line.plain() for line in self.lines],
            "claims": [verdict.plain() for verdict in self.verdicts],
            "note": plan.table.note,
        }


def read_results(plan: Plan) -> Results:
    """The table of a plan, from what its ledger has."""
    lines = tuple(_line(plan, row) for row in plan.table.rows)
    return Results(plan, lines, judge(plan, {line.row.name: line.cells for line in lines}))


def _line(plan: Plan, row: Row) -> Line:
    cells: dict[str, Cell] = {}
    runs: dict[tuple[str, int], Entry] = {}
    for column in plan.table.columns:
        scale = 1.0 if plan.table.experiments[column.experiment].is_timing else 100.0
        values = [entry.figures.get(column.measure) for entry in plan.entries(row, column)]
        here = tuple(scale * value for value in values if value is not None)
        cells[column.name] = Cell(row.published.get(column.name), here)
        runs |= {(entry.experiment, entry.seed): entry for entry in plan.entries(row, column, training=True)}
    seeds = max(len(cell.values) for cell in cells.values())
    hours = sum(run.cpu_hours if run.hardware.get("device") == "cpu" else run.hours for run in runs.values())
    return Line(row, cells, seeds, hours, _remark(plan, row))


def _machine(entry: Entry) -> str:
    known = entry.hardware
    where = known.get("gpu") or f"{known.get('cpu', '?')}, {known.get('threads', '?')} thread(s)"
    return f"{where}; torch {entry.versions.get('torch', '?')}"


def _p(value: float | None, corrected: float) -> str:
    """A p value, with the corrected one in brackets."""
    if value is None:
        return ""
    plain, after = ("< 0.001" if p < 0.001 else f"{p:.3f}" for p in (value, corrected))
    return f"{plain} ({after})"


def _remark(plan: Plan, row: Row) -> str:
    used = plan.table.used
    problems = dict.fromkeys(
        problem
        for (name, experiment), problem in plan.problems.items()
        if name == row.name and not plan.is_complete(row, used[experiment])
    )
    return "; ".join([*problems, *_states(plan, row), *filter(None, [row.note])])


def _states(plan: Plan, row: Row) -> list[str]:
    """What is still missing of the row's runs, and why."""
    found: dict[str, int] = {}
    used = {made.fingerprint for (name, _), made in plan.specs.items() if name == row.name}
    for run in plan.left():
        if run.made.fingerprint not in used:
            continue
        if holder := run.holder:
            state = f"in training ({holder})"
        elif run.error.exists():
            last = run.error.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            state = f"failed: {last.partition(': ')[2] or last}"
        else:
            state = "interrupted" if run.directory.is_dir() else "not run"
        found[state] = found.get(state, 0) + 1
    return [f"{count} run{'s' * (count > 1)} {state}" for state, count in found.items()]
