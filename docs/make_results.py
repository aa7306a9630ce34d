"""Makes docs/results/tables.md from docs/results/ledger.jsonl: every table that has a run in the ledger."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from crvnn_core import create_plugin_manager, read_catalog
from crvnn_core.files import write_atomically
from crvnn_experiments.definition import BUDGETS, read_table, table_names
from crvnn_experiments.ledger import Ledger
from crvnn_experiments.plan import Plan
from crvnn_experiments.results import Results, read_results

RESULTS = Path(__file__).parent / "results"
INTRODUCTION = """# Tables

Made by `python docs/make_results.py` from the ledger, [ledger.jsonl](ledger.jsonl), which has a row for each run:
spec, seed, hours, hardware, commit and figures. Nothing is here that was not run.
[How to reproduce them](../how-to/reproduce.md).
"""
NOTHING = "\nThe ledger has no runs yet.\n"


def page(ledger: Path = RESULTS / "ledger.jsonl") -> str:
    """The page as Markdown."""
    sections = [re.sub(r"^#", "##", results.markdown(), flags=re.MULTILINE) for results in _results(ledger)]
    return "\n".join([INTRODUCTION, *sections]) if sections else INTRODUCTION + NOTHING


def _results(ledger: Path) -> Iterator[Results]:
    """The tables that have a figure, with the seeds that were run."""
    found = Ledger(ledger)
    if not found.entries:
        return
    catalog = read_catalog(create_plugin_manager())
    for table in map(read_table, table_names()):
        for budget in BUDGETS:
            if any(budget not in experiment.budgets for experiment in table.used.values()):
                continue
            ours = [e for e in found.entries.values() if e.budget == budget and e.experiment in table.used]
            seeds = 1 + max((entry.seed for entry in ours), default=0)
            plan = Plan(
                table=table,
                budget=budget,
                seeds=seeds,
                directory=RESULTS / "runs",
                data=Path("data"),
                catalog=catalog,
                ledger=found,
            )
            results = read_results(plan)
            if any(line.seeds for line in results.lines):
                yield results


if __name__ == "__main__":
    for problem in Ledger(RESULTS / "ledger.jsonl").problems:
        print(problem, file=sys.stderr)
    write_atomically(RESULTS / "tables.md", page())
