"""The page: one HTML file that loads nothing and needs no script."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.metadata import version
from importlib.resources import files

from markupsafe import Markup

from crvnn_core.display.palette import css_variables
from crvnn_report.rendering import render
from crvnn_report.report import Report
from crvnn_report.sections import SECTIONS

#: Control characters, and those that change the direction of the text around them.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)


def page(report: Report) -> str:
    """A report as HTML.

    Values from runs are escaped, invisible characters are replaced by U+FFFD, and the page's own content security
    policy allows no script but the one written here.
    """
    style, script = (
        files("crvnn_report").joinpath("templates", name).read_text("utf-8")
        for name in ("page.css", "page.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    contents = [(section, section.context(report)) for section in SECTIONS]
    text = render(
        "page.html",
        report=report,
        runs=sum(variant.seeds for variant in report.variants),
        sections=[
            (section, render(f"sections/{section.name}.html", section=section, names=report.names, **context))
            for section, context in contents
            if context is not None
        ],
        style=Markup(css_variables() + style),
        script=Markup(script),
        digest=digest,
        version=version("crvnn"),
    )
    return _INVISIBLE.sub("\ufffd", text)
