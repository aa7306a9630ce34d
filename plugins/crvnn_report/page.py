"""The page: its sections, one below the other."""

from __future__ import annotations

from crvnn_core.display import pages
from crvnn_report.report import Report
from crvnn_report.sections import SECTIONS

PACKAGE = "crvnn_report"


def page(report: Report) -> str:
    """A report as HTML that loads nothing and needs no script."""
    contents = {section: context for section in SECTIONS if (context := section.context(report)) is not None}
    return pages.page(
        PACKAGE,
        "report",
        brand="crvnn report",
        links={section.name: section.link for section in contents if section.link},
        report=report,
        runs=sum(variant.seeds for variant in report.variants),
        sections=[
            pages.render(
                PACKAGE, f"sections/{section.name}.html", section=section, names=report.names, **context
            )
            for section, context in contents.items()
        ],
    )
