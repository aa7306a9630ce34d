"""The page: its sections, one below the other.

A new section is a function in ``sections``, a template in ``templates/sections``, and a line in ``SECTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from crvnn_core.display import pages
from crvnn_report.report import Report
from crvnn_report.sections.examples import examples
from crvnn_report.sections.groups import groups
from crvnn_report.sections.learning import learning
from crvnn_report.sections.overview import overview
from crvnn_report.sections.predictions import confusion, depth
from crvnn_report.sections.settings import differences, spec

PACKAGE = "crvnn_report"


@frozen
class Section:
    """A part of the page with a heading."""

    #: Gives the variables of the template, or ``None`` to leave the section out.
    context: Callable[[Report], dict[str, Any] | None]
    #: Its name in the navigation bar; empty for a section that is not there.
    link: str = ""

    @property
    def name(self) -> str:
        """Its anchor on the page, and the name of its template."""
        return self.context.__name__


#: In the order of the page.
SECTIONS = (
    Section(overview),
    Section(differences, "Differences"),
    Section(learning, "Learning"),
    Section(groups, "Groups"),
    Section(depth, "Depth"),
    Section(confusion, "Confusion"),
    Section(examples, "Trees"),
    Section(spec, "Spec"),
)


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
