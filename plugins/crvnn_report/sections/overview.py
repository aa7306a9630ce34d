"""Overview: a card with the accuracy of each variant, and a table of all splits."""

from __future__ import annotations

from typing import Any

from crvnn_core.runs.comparison import Spread, percent
from crvnn_core.runs.records import Variant, groups
from crvnn_report.report import Report


def overview(report: Report) -> dict[str, Any]:
    """Cards, and the rows of the table: for each variant its accuracy, loss and depth on every split."""
    splits = list(groups(report.variants))
    return {
        "remarks": report.remarks,
        "cards": [_card(variant) for variant in report.variants],
        "splits": splits,
        "rows": [(variant.name, variant.seeds, _numbers(variant, splits)) for variant in report.variants],
        "several_seeds": any(variant.seeds > 1 for variant in report.variants),
    }


def mean_and_deviation(variant: Variant, split: str, group: str, metric: str, digits: int) -> str | None:
    """A metric over the seeds of a variant: ``97.2 ± 0.4``; ``None`` if no run has it."""
    values = variant.values(split, group, metric)
    return Spread(tuple(values)).format(metric, digits) if values else None


def _numbers(variant: Variant, splits: list[str]) -> list[str | None]:
    return [
        mean_and_deviation(variant, split, "", metric, digits)
        for split in splits
        for metric, digits in (("accuracy", 2), ("loss", 4), ("depth", 1))
    ]


def _card(variant: Variant) -> dict[str, Any]:
    splits = list(groups([variant]))
    values = variant.values(splits[-1]) if splits else []
    deviation = Spread(tuple(values)).std if values else None
    return {
        "name": variant.name,
        "split": splits[-1] if splits else None,
        "accuracy": percent(sum(values) / len(values)) if values else None,
        "deviation": f"{100 * deviation:.1f}" if deviation is not None else None,
        "facts": [
            f"{split} {mean_and_deviation(variant, split, '', 'accuracy', 1)}%"
            for split in splits[:-1]
            if variant.values(split)
        ]
        + _facts(variant),
    }


def _facts(variant: Variant) -> list[str]:
    first = variant.runs[0]
    width, cell = first.spec.get("model.width"), first.spec.get("model.cell")
    facts = [f"{variant.seeds} seeds" if variant.seeds > 1 else f"seed {first.seed}"]
    facts += [f"width {width}"] if width else []
    facts += [f"{cell} cell"] if cell else []
    facts += [f"best at step {first.best_step:,}"] if first.best_step and variant.seeds == 1 else []
    return facts
