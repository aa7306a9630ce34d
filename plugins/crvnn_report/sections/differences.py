"""Differences: the settings and versions in which the variants differ."""

from __future__ import annotations

from typing import Any

from crvnn_core.runs.records import differences, with_stages_in_brief
from crvnn_report.report import Report


def context(report: Report) -> dict[str, Any] | None:
    """Settings that differ, and settings that only some variants have; nothing if there are neither."""
    found = with_stages_in_brief(differences([variant.runs[0].configuration for variant in report.variants]))
    if not found:
        return None
    return {
        "common": [(key, values, False) for key, values in found.items() if None not in values],
        "partial": [(key, values, False) for key, values in found.items() if None in values],
    }
