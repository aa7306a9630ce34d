"""The runs themselves: results of every split, settings that differ, and all settings and versions."""

from __future__ import annotations

from typing import Any

from crvnn_core.runs.comparison import Spread, percent
from crvnn_core.runs.records import Variant, groups, with_stages_in_brief
from crvnn_core.runs.records import differences as differing_settings
from crvnn_report.report import Report

_VERSION = "versions."  # the prefix of a package's version in ``Record.configuration``


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


def differences(report: Report) -> dict[str, Any] | None:
    """Settings that differ, and settings that only some variants have; nothing if there are neither."""
    found = with_stages_in_brief(
        differing_settings([variant.runs[0].configuration for variant in report.variants])
    )
    if not found:
        return None
    return {
        "common": [(key, values, False) for key, values in found.items() if None not in values],
        "partial": [(key, values, False) for key, values in found.items() if None in values],
    }


def spec(report: Report) -> dict[str, Any]:
    """Rows of (key, values by variant, whether they differ) for settings and versions; names and seeds of runs."""
    configurations = [variant.runs[0].configuration for variant in report.variants]
    different = differing_settings(configurations)
    keys = dict.fromkeys(key for one in configurations for key in one)
    rows = [(key, [one.get(key) for one in configurations], key in different) for key in keys]
    return {
        "settings": [row for row in rows if not row[0].startswith(_VERSION)],
        "versions": [
            (key.removeprefix(_VERSION), values, differ)
            for key, values, differ in rows
            if key.startswith(_VERSION)
        ],
        "runs": [
            (colour, run.name, run.seed, run.best_step)
            for colour, variant in enumerate(report.variants)
            for run in variant.runs
        ],
    }
