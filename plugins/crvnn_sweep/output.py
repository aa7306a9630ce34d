"""The table of a study: for a terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from crvnn_core.display.tables import Table
from crvnn_core.runs.comparison import Spread
from crvnn_sweep.results import Findings, Row
from crvnn_sweep.space import short_names


def trial_table(findings: Findings) -> Table:
    """A row for each trial: its settings, the metric on the development split, and the metric on other splits."""
    names = _searched(findings)
    short = short_names(names)
    splits = list(dict.fromkeys(split for row in findings.rows for split in row.results))
    unit = " %" if findings.metric == "accuracy" else ""
    columns = ("trial", *(short[name] for name in names), "state")
    numbers = (f"{findings.metric}{unit}", *(f"{split}{unit}" for split in splits[1:]), "seconds")
    first = len(columns)
    rows = []
    for row in findings.ordered:
        settings = [text(row.params[name]) if name in row.params else "" for name in names]
        others = [_metric(row.results.get(split, {}).get(findings.metric), findings) for split in splits[1:]]
        seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
        cells = (str(row.number), *settings, row.state, shown_value(row, findings), *others, seconds)
        rows.append((*cells, remark(row)))
    return Table((*columns, *numbers, "remarks"), tuple(rows), (0, *range(first, first + len(numbers))))


def effect_table(findings: Findings) -> Table:
    """A row for each value of each setting, the settings that matter most first."""
    short = short_names(list(findings.effects))
    order = [*findings.importance, *(name for name in findings.effects if name not in findings.importance)]
    rows = []
    for name in order:
        for number, effect in enumerate(findings.effects[name]):
            share = f"{100 * findings.importance[name]:.0f}%" if name in findings.importance else ""
            head = (short[name], share) if number == 0 else ("", "")
            mean, best = _metric(effect.mean, findings), _metric(effect.best, findings)
            rows.append((*head, effect.label, str(effect.trials), mean, best))
    return Table(("setting", "importance", "value", "trials", "mean", "best"), tuple(rows), (1, 3, 4, 5))


def trial_csv(findings: Findings) -> str:
    """All trials with exact numbers and full names of settings."""
    names = _searched(findings)
    measures = list(
        dict.fromkeys(
            (split, metric)
            for row in findings.rows
            for split, metrics in row.results.items()
            for metric in metrics
        )
    )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["trial", "state", *names, findings.metric, "std", *(f"{s}/{m}" for s, m in measures)]
    writer.writerow([*head, "seconds", "retries", "message", "directory"])
    for row in findings.rows:
        results = [row.results.get(split, {}).get(metric, "") for split, metric in measures]
        cells: list[Any] = [row.number, row.state, *(row.params.get(name, "") for name in names), row.value]
        cells += [row.std, *results, row.seconds, len(row.retries), row.message, row.directory]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return out.getvalue()


def shown_value(row: Row, findings: Findings) -> str:
    """The metric with its standard deviation over seeds."""
    if row.values:
        return Spread(row.values).format(findings.metric, 1 if findings.metric == "accuracy" else 4)
    return _metric(row.value, findings)


def remark(row: Row) -> str:
    """The first line of the message, and how often the trial was begun again."""
    first = row.message.strip().splitlines()[:1]
    if row.retries:
        again = f"begun {len(row.retries) + 1} times: {row.retries[-1]}"
        return "; ".join([*first, again])
    return "".join(first)


def text(value: Any) -> str:
    """A setting as a table shows it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def counted(findings: Findings) -> str:
    """``35 trials: 33 complete, 2 failed``."""
    parts = ", ".join(f"{count} {state}" for state, count in findings.counts.items())
    return f"{len(findings.rows)} trials: {parts}"


def _searched(findings: Findings) -> list[str]:
    """The settings that some trial has a value of, in the order of the search space."""
    known = {name for row in findings.rows for name in row.params}
    return [name for name in findings.effects if name in known]


def _metric(value: float | None, findings: Findings) -> str:
    if value is None:
        return ""
    return Spread((value,)).format(findings.metric, 1 if findings.metric == "accuracy" else 4)


def markdown(findings: Findings, title: str) -> str:
    """The whole result as a page of Markdown."""
    parts: Sequence[str] = (
        f"# {title}\n\n{counted(findings)}.\n",
        trial_table(findings).markdown(),
        "Importance: the share of the variance between complete trials that a setting alone explains.\n",
        effect_table(findings).markdown(),
    )
    return "\n".join(parts)
