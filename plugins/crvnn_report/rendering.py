"""Rendering of the report's Jinja2 templates: every value that a template prints is escaped."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crvnn_core.display.palette import run_class


def render(template: str, **values: Any) -> Markup:
    """A template filled in with values; the result is markup, which other templates print as it is.

    :param template: its path below ``templates/``, without the ending ``.jinja``.
    """
    return Markup(_ENVIRONMENT.get_template(f"{template}.jinja").render(values))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _px(value: float) -> str:
    """A coordinate of an SVG."""
    return f"{value:.1f}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("crvnn_report"),
    autoescape=True,
    undefined=StrictUndefined,  # a misspelt variable is an error, not a gap in the page
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters.update(json=_json, px=_px, run_class=run_class)
