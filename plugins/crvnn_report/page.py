"""The page: its sections, one below the other.

A new section is a function in ``sections``, its template in ``templates/sections``, and a line in ``SECTIONS``.
"""

from __future__ import annotations

from crvnn_core.display import pages
from crvnn_report.report import Report
from crvnn_report.sections.examples import examples
from crvnn_report.sections.groups import groups
from crvnn_report.sections.learning import learning
from crvnn_report.sections.predictions import confusion, depth
from crvnn_report.sections.runs import differences, overview, spec

PACKAGE = "crvnn_report"
#: What gives the variables of each section's template, or ``None`` to leave the section out, in the order of the page;
#: and the section's name in the navigation bar, empty if it is not there.
SECTIONS = {
    overview: "",
    differences: "Differences",
    learning: "Learning",
    groups: "Groups",
    depth: "Depth",
    confusion: "Confusion",
    examples: "Trees",
    spec: "Spec",
}


def page(report: Report) -> str:
    """A report as HTML that loads nothing and needs no script."""
    contents = {section: context for section in SECTIONS if (context := section(report)) is not None}
    return pages.page(
        PACKAGE,
        "report",
        brand="crvnn report",
        links={section.__name__: SECTIONS[section] for section in contents if SECTIONS[section]},
        report=report,
        runs=sum(variant.seeds for variant in report.variants),
        sections=[
            pages.render(
                PACKAGE,
                f"sections/{section.__name__}.html",
                name=section.__name__,
                names=report.names,
                **context,
            )
            for section, context in contents.items()
        ],
    )
