"""A table made from the ledger: what is published and what was measured here, row by row, and claim by claim."""

from __future__ import annotations

import statistics
from typing import Any

from attrs import frozen

from crvnn_reproduce.claims import Verdict, judge
from crvnn_reproduce.definition import Column, Figure, Row
from crvnn_reproduce.ledger import Entry
from crvnn_reproduce.plan import Plan


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
        return any(e.measure == "minutes" for e in self.plan.table.used.values())

    @property
    def data(self) -> dict[str, str]:
        """The data of each experiment, by its title."""
        used = self.plan.table.used.values()
        return {experiment.title: experiment.budget(self.plan.budget).data for experiment in used}

    @property
    def machines(self) -> list[str]:
        """The processors and versions of the runs."""
        entries = [
            e
            for line in self.lines
            for column in self.plan.table.columns
            for e in self._entries(line, column)
        ]
        return sorted({_machine(entry) for entry in entries})

    def _entries(self, line: Line, column: Column) -> list[Entry]:
        return self.plan.entries(line.row, column)

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
    cells = {line.row.name: line.cells for line in lines}
    verdicts = tuple(judge(claim, plan, cells) for claim in plan.table.claims)
    return Results(plan, lines, verdicts)


def _line(plan: Plan, row: Row) -> Line:
    cells: dict[str, Cell] = {}
    runs: dict[tuple[str, int], Entry] = {}
    for column in plan.table.columns:
        entries = plan.entries(row, column)
        minutes = plan.table.experiments[column.experiment].measure == "minutes"
        values = [entry.figures.get(column.measure) for entry in entries]
        scale = 1.0 if minutes else 100.0
        here = tuple(scale * value for value in values if value is not None)
        cells[column.name] = Cell(row.published.get(column.name), here)
        runs |= {(entry.experiment, entry.seed): entry for entry in _trainings(plan, row, column)}
    seeds = max(len(cell.values) for cell in cells.values())
    return Line(row, cells, seeds, sum(map(_hours, runs.values())), _remark(plan, row))


def _trainings(plan: Plan, row: Row, column: Column) -> list[Entry]:
    """The entries with the cost of a cell: those of the runs themselves, not of later tests."""
    from attrs import evolve

    if column.lengths:
        return plan.entries(row, column)
    return plan.entries(row, evolve(column, test={}))


def _hours(entry: Entry) -> float:
    return entry.cpu_hours if entry.hardware.get("device") == "cpu" else entry.hours


def _machine(entry: Entry) -> str:
    known = entry.hardware
    where = known.get("gpu") or f"{known.get('cpu', '?')}, {known.get('threads', '?')} thread(s)"
    return f"{where}; torch {entry.versions.get('torch', '?')}"


def _remark(plan: Plan, row: Row) -> str:
    used = plan.table.used
    problems = dict.fromkeys(
        problem
        for (name, experiment), problem in plan.problems.items()
        if name == row.name and not plan.is_complete(row, used[experiment])
    )
    remarks = [*problems, *_states(plan, row), *filter(None, [row.note])]
    return "; ".join(remarks)


def _states(plan: Plan, row: Row) -> list[str]:
    """What is still missing of the row's runs, and why."""
    found: dict[str, int] = {}
    used = {made.fingerprint for (name, _), made in plan.specs.items() if name == row.name}
    for job in plan.jobs:
        if job.made.fingerprint not in used or plan.is_done(job):
            continue
        if job.directory.parent.is_dir() and (owner := job.lock.owner):
            state = f"in training ({owner})"
        elif job.error.exists():
            last = job.error.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            state = f"failed: {last.partition(': ')[2] or last}"
        else:
            state = "interrupted" if job.directory.is_dir() else "not run"
        found[state] = found.get(state, 0) + 1
    return [f"{count} run{'s' * (count > 1)} {state}" for state, count in found.items()]
