"""Pieces of a page. Whatever comes from a run goes through ``plain`` on its way here."""

from __future__ import annotations

from collections.abc import Sequence

from crvnn_report.svg import plain


def section(name: str, title: str, *content: str, lead: str = "") -> str:
    """A part of the page with a heading and a place to link to."""
    intro = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{name}"><h2>{plain(title)}</h2>{intro}{"".join(content)}</section>'


def figure(caption: str, drawing: str, note: str = "") -> str:
    """A picture with its name."""
    small = f"<small>{note}</small>" if note else ""
    name = f"<figcaption>{plain(caption)}{small}</figcaption>"
    return f'<figure>{name}<div class="scroll" tabindex="0">{drawing}</div></figure>'


def missing(reason: str) -> str:
    """Said in the place of what could not be shown."""
    return f'<p class="missing">{plain(reason)}</p>'


def details(summary: str, content: str, *, opened: bool = False) -> str:
    """What is there for those who ask."""
    return f"<details{' open' if opened else ''}><summary>{plain(summary)}</summary>{content}</details>"


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    kind: str = "",
    heads: Sequence[str] | None = None,
) -> str:
    """A table; cells are HTML already, names of columns are not unless ``heads`` gives them as HTML.

    The first cell of a row is its name. A row or cell that begins with ``!`` is marked.
    """
    named = heads if heads is not None else [plain(column) for column in columns]
    head = "".join(f'<th scope="col">{name}</th>' for name in named)
    body = "".join(_row(row) for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><caption>{plain(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[str]) -> str:
    marked = ' class="marked"' if cells[0].startswith("!") else ""
    first = cells[0].removeprefix("!")
    return (
        f'<tr{marked}><th scope="row">{first}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells[1:])
        + "</tr>"
    )


def swatch(colour: int, name: str) -> str:
    """A name with its colour."""
    return f'<span class="name s{colour % 8}"><i></i>{plain(name)}</span>'


def legend(names: Sequence[str], *more: str) -> str:
    """The colours of a section; nothing if there is one of them and nothing more."""
    found = [swatch(colour, name) for colour, name in enumerate(names)] if len(names) > 1 else []
    every = [*found, *more]
    return f'<p class="legend">{" ".join(every)}</p>' if every else ""
