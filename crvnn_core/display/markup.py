"""HTML for the cells of a notebook: tables and bars in the colours of ``palette.py``, without scripts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape as escape

from attrs import frozen

from crvnn_core.display.palette import COLOURS
from crvnn_core.trees import Tree

_USED = ("surface", "sunk", "ink", "muted", "line", "later", "e", "c", "share", "wrong")
#: What says that a page is light or dark: JupyterLab, VS Code, and pages made with MkDocs Material.
_THEMES = (
    ('body[data-jp-theme-light="true"]', "body.vscode-light", '[data-md-color-scheme="default"]'),
    ('body[data-jp-theme-light="false"]', "body.vscode-dark", '[data-md-color-scheme="slate"]'),
)
_RULES = """
.crvnn-view { background: var(--crvnn-surface); color: var(--crvnn-ink); padding: 0.6em 0.8em; line-height: 1.45;
  overflow-x: auto; font: 14px system-ui, sans-serif; border: 1px solid var(--crvnn-line); border-radius: 6px; }
.crvnn-view table { border-collapse: collapse; border: none; margin: 0.3em 0; font-size: 13px; display: table;
  width: auto; color: inherit; background: none; }
.crvnn-view th, .crvnn-view td { padding: 2px 8px; text-align: left; border: none; background: none; color: inherit;
  vertical-align: top; min-width: 0; }
.crvnn-view thead th { border-bottom: 1px solid var(--crvnn-line); color: var(--crvnn-muted); font-weight: 600; }
.crvnn-view tbody th { font-weight: 400; color: var(--crvnn-muted); }
.crvnn-view .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.crvnn-view .tree { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px; color: var(--crvnn-muted); }
.crvnn-view .muted { color: var(--crvnn-muted); }
.crvnn-view .unknown { color: var(--crvnn-wrong); text-decoration: underline dashed; }
.crvnn-view .bar { display: inline-block; height: 0.7em; border-radius: 2px; background: var(--crvnn-e); }
.crvnn-view .share { white-space: nowrap; }
.crvnn-view .shade { display: block; position: relative; min-width: 2em; min-height: 1.4em; padding: 0 0.3em; }
.crvnn-view .shade i { position: absolute; inset: 0; background: var(--crvnn-share); border-radius: 2px; }
.crvnn-view .shade span { position: relative; }
.crvnn-view .steps td { padding: 1px; vertical-align: middle; }
.crvnn-view .steps td span { display: block; min-width: 2.6em; height: 1.5em; position: relative; border-radius: 2px;
  background: var(--crvnn-sunk); overflow: hidden; }
.crvnn-view .steps td i { position: absolute; left: 0; right: 0; bottom: 0; background: var(--crvnn-e); }
.crvnn-view .steps td b { position: absolute; left: 0; bottom: 0; height: 4px; background: var(--crvnn-c); }
.crvnn-view .steps thead th { text-align: center; font-family: ui-monospace, Menlo, Consolas, monospace; }
.crvnn-view .crvnn-tree { --ink: var(--crvnn-ink); --edge: var(--crvnn-later); --sure: var(--crvnn-e);
  --late: var(--crvnn-muted); --paper: var(--crvnn-surface); --odd: var(--crvnn-wrong); display: block; }
"""


@frozen
class Raw:
    """A piece of HTML, which is not escaped again."""

    html: str

    def __str__(self) -> str:
        return self.html


def page(*parts: object) -> str:
    """The parts, one below the other, with their style."""
    return f'<div class="crvnn-view"><style>{_style()}</style>{"".join(map(_text, parts))}</div>'


def _style() -> str:
    light, dark = ("; ".join(f"--crvnn-{name}: {COLOURS[name][place]}" for name in _USED) for place in (0, 1))
    named = "\n".join(
        f"{', '.join(f'{theme} .crvnn-view' for theme in themes)} {{ {colours} }}"
        for themes, colours in zip(_THEMES, (light, dark), strict=True)
    )
    system = f"@media (prefers-color-scheme: dark) {{ .crvnn-view {{ {dark} }} }}"
    return f".crvnn-view {{ {light} }}\n{system}\n{named}{_RULES}"


def table(
    columns: Sequence[object], rows: Iterable[Sequence[object]], right: Collection[int] = (), kind: str = ""
) -> Raw:
    """A table; texts are escaped, and the columns whose numbers are in ``right`` are aligned to the right."""

    def cells(tag: str, row: Sequence[object]) -> str:
        names = (' class="number"' if place in right else "" for place in range(len(row)))
        return "".join(f"<{tag}{name}>{_text(cell)}</{tag}>" for name, cell in zip(names, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', columns)}</tr></thead>"
    return Raw(f'<table class="{kind}">{head}<tbody>{body}</tbody></table>')


def line(text: object, kind: str = "") -> Raw:
    """A line of text."""
    return Raw(f'<div class="{kind}">{_text(text)}</div>')


def bar(share: float) -> Raw:
    """A bar whose length is a probability, and its number."""
    return Raw(
        f'<span class="share"><span class="bar" style="width: {6 * share:.2f}em"></span> {share:.1%}</span>'
    )


def shade(text: str, share: float) -> Raw:
    """A text on a shade that is the deeper the larger a share is."""
    return Raw(
        f'<span class="shade"><i style="opacity: {0.55 * share:.2f}"></i><span>{escape(text)}</span></span>'
    )


def drawing(tree: Tree, unknown: Collection[int] = ()) -> Raw:
    """A tree as a picture."""
    return Raw(tree.to("svg", unknown=unknown))


def more(shown: int, total: int, what: str) -> Raw:
    """How many were left out, if any."""
    return line(f"... and {total - shown:,} more {what}", "muted") if total > shown else Raw("")


def _text(part: object) -> str:
    return part.html if isinstance(part, Raw) else escape(str(part))
