"""Pages: one HTML file that loads nothing, with the style sheet and the script of ``templates``.

``templates`` has what pages extend and import: ``page.html.jinja``, whose blocks are ``title``, ``heading`` and
``main``, and ``macros.html.jinja`` with tables, figures, legends and so on. A package keeps its own templates in a
folder ``templates``, under other names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crvnn_core.display.palette import css_variables, run_class

#: The package of the templates that all pages share.
KIT = "crvnn_core.display"
#: Control characters, and those that change the direction of the text around them.
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)


def page(package: str, template: str, *, brand: str, links: dict[str, str], **values: Any) -> str:
    """A whole page, for ``templates/TEMPLATE.html.jinja`` of a package, which extends ``page.html.jinja``.

    Every value is escaped, invisible characters are replaced by U+FFFD, and the page's own content security policy
    allows no script but ``templates/page.js``.

    :param brand: the command that writes the page, above its heading.
    :param links: by the id of a part of the page, its name in the navigation.
    """
    style, script = (
        files(KIT).joinpath("templates", name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    text = render(
        package,
        f"{template}.html",
        **values,
        brand=brand,
        links=links,
        style=Markup(css_variables() + style),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version("crvnn"),
    )
    return _INVISIBLE.sub("\ufffd", text)


def render(package: str, template: str, **values: Any) -> Markup:
    """A template of a package filled in with values; the result is markup, which other templates print as it is.

    :param template: its path below ``templates/``, without the ending ``.jinja``.
    """
    return Markup(_environment(package).get_template(f"{template}.jinja").render(values))


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((KIT, package))]),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt variable is an error, not a gap in the page
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        json=lambda value: json.dumps(value, ensure_ascii=False),
        px=lambda coordinate: f"{coordinate:.1f}",
        run_class=run_class,
    )
    return environment
