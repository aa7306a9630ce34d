"""The sections of a report, in the order of the page.

A new section is a module here with a function ``context(report)``, a template of the same name in
``templates/sections``, and a line in ``SECTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from crvnn_report.report import Report
from crvnn_report.sections import (
    confusion,
    depth,
    differences,
    examples,
    groups,
    learning,
    overview,
    spec,
)

#: The variables of a section's template; ``None`` leaves the section out.
Context = dict[str, Any]


@frozen
class Section:
    """A part of the page with a heading."""

    #: Its anchor on the page, and the name of its template.
    name: str
    context: Callable[[Report], Context | None]
    #: Its name in the navigation bar; empty for a section that is not there.
    link: str = ""


SECTIONS = (
    Section("overview", overview.context),
    Section("differences", differences.context, "Differences"),
    Section("learning", learning.context, "Learning"),
    Section("groups", groups.context, "Groups"),
    Section("depth", depth.context, "Depth"),
    Section("confusion", confusion.context, "Confusion"),
    Section("examples", examples.context, "Trees"),
    Section("spec", spec.context, "Spec"),
)
