"""The page: one file that needs nothing else, neither a network nor a script."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version
from importlib.resources import files

from crvnn_report import inspection, sections
from crvnn_report.collection import Report
from crvnn_report.svg import plain

_PARTS = (
    ("differences", "Differences"),
    ("learning", "Learning"),
    ("groups", "Groups"),
    ("depth", "Depth"),
    ("confusion", "Confusion"),
    ("examples", "Inside"),
    ("spec", "Spec"),
)


def page(report: Report) -> str:
    """A report as HTML.

    Its own policy lets it load nothing and run no script but the one written here, whatever stands in the data.
    """
    style, script = (
        files("crvnn_report").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    body = "\n".join(
        [
            sections.overview(report),
            sections.apart(report),
            sections.learning(report),
            sections.by_groups(report),
            sections.depth(report),
            inspection.confusions(report),
            inspection.examples(report),
            sections.specs(report),
        ]
    )
    links = "".join(
        f'<a href="#{name}">{title}</a>' for name, title in _PARTS if f'<section id="{name}"' in body
    )
    title = f"{report.task}: {', '.join(report.names[:4])}{' ...' if len(report.names) > 4 else ''}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{plain(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<p class="brand">crvnn report</p>
<h1>{_headline(report)}</h1>
<nav aria-label="Parts of the report">{links}</nav>
</header>
<main>
{body}
</main>
<footer>Written by crvnn {plain(version("crvnn"))}. This page is complete: it loads nothing and sends nothing.</footer>
<script>{script}</script>
</body>
</html>
"""


def _headline(report: Report) -> str:
    count = sum(variant.seeds for variant in report.variants)
    if count == 1:
        return f"{plain(report.names[0])} <span>on {plain(report.task)}</span>"
    kinds = f", {len(report.variants)} variants" if len(report.variants) not in (1, count) else ""
    return f"{plain(report.task)} <span>{count} runs{kinds}</span>"
