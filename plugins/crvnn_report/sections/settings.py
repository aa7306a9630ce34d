"""Settings and versions: those in which the variants differ, and all of them with a list of the runs."""

from __future__ import annotations

from typing import Any

from crvnn_core.runs import records
from crvnn_report.report import Report

_VERSION = "versions."  # the prefix of a package's version in ``Record.configuration``


def differences(report: Report) -> dict[str, Any] | None:
    """Settings that differ, and settings that only some variants have; nothing if there are neither."""
    found = records.with_stages_in_brief(
        records.differences([variant.runs[0].configuration for variant in report.variants])
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
    different = records.differences(configurations)
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
