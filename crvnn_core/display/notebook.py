"""Pieces of HTML from which results draw themselves in a notebook, without scripts, in the colours of ``palette.py``.

Texts are escaped; what these functions return is markup, which is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from markupsafe import Markup

from crvnn_core.display.palette import COLOURS

_CLASSES = 5  # of a prediction that are shown, the most probable first
_TOKENS = 200  # of a sequence that are shown step by step
LEGEND = Markup(
    '<div class="muted">blue: existential probability e before the step; orange: composition probability c</div>'
)
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


def page(*parts: str) -> str:
    """The parts, one below the other, with their style."""
    return f'<div class="crvnn-view"><style>{_style()}</style>{Markup().join(parts)}</div>'


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
) -> Markup:
    """A table; the columns whose numbers are in ``right`` are aligned to the right."""

    def line_of(tag: str, row: Sequence[object]) -> Markup:
        names = (Markup(' class="number"') if place in right else "" for place in range(len(row)))
        cells = (
            Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), name, cell)
            for name, cell in zip(names, row, strict=True)
        )
        return Markup("<tr>{}</tr>").format(Markup().join(cells))

    body = Markup().join(line_of("td", row) for row in rows)
    return Markup('<table class="{}"><thead>{}</thead><tbody>{}</tbody></table>').format(
        kind, line_of("th", columns), body
    )


def line(text: object, kind: str = "") -> Markup:
    """A line of text."""
    return Markup('<div class="{}">{}</div>').format(kind, text)


def lines(texts: Iterable[str]) -> Markup:
    """Texts, one below the other."""
    return Markup("<br>").join(texts)


def mark(text: object, kind: str) -> Markup:
    """A text of a class of the style sheet: ``tree``, ``unknown``."""
    return Markup('<span class="{}">{}</span>').format(kind, text)


def bar(share: float) -> Markup:
    """A bar whose length is a probability, and its number."""
    return Markup(
        f'<span class="share"><span class="bar" style="width: {6 * share:.2f}em"></span> {share:.1%}</span>'
    )


def shade(text: str, share: float) -> Markup:
    """A text on a shade that is the deeper the larger a share is."""
    return Markup('<span class="shade"><i style="opacity: {:.2f}"></i><span>{}</span></span>').format(
        0.55 * share, text
    )


def more(displayed: int, total: int, what: str) -> Markup:
    """How many were left out, if any."""
    return line(f"... and {total - displayed:,} more {what}", "muted") if total > displayed else Markup()


def number(metric: str, value: object) -> str:
    """The value of a metric: shares in percent, counts as they are."""
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.3f}" if metric == "loss" else f"{value:.1f}" if metric == "depth" else f"{value:.1%}"


def probabilities(by_class: Mapping[str, float]) -> Markup:
    """A table of the most probable classes, the first in bold."""
    ranked = sorted(by_class.items(), key=lambda pair: -pair[1])
    best = Markup("<strong>{}</strong>").format(ranked[0][0])
    rows = [(name if place else best, bar(chance)) for place, (name, chance) in enumerate(ranked[:_CLASSES])]
    return table(("label", "probability"), rows) + more(_CLASSES, len(ranked), "classes")


def unknown_tokens(tokens: Sequence[str]) -> Markup:
    """The tokens outside the vocabulary, if any."""
    return (
        line(Markup("not in the vocabulary: {}").format(mark(" ".join(tokens), "unknown")))
        if tokens
        else Markup()
    )


def picture(svg: str | None) -> Markup:
    """The tree of a sequence as SVG, whose texts are escaped already; ``None`` if there is none."""
    return line("this encoder shows no tree", "muted") if svg is None else Markup(svg)


def steps(
    names: Sequence[object], exists: Sequence[Sequence[float]], compose: Sequence[Sequence[float]]
) -> Markup:
    """A table with a row for each step: e before it as a blue bar from below, c as an orange one from the left."""
    nothing = [0.0] * len(names)
    titles = [*(f"step {step}" for step in range(1, len(compose) + 1)), "end"]
    rows = [
        (title, *(_cell(*pair) for pair in zip(e[:_TOKENS], c[:_TOKENS], strict=True)))
        for title, e, c in zip(titles, exists, [*compose, nothing], strict=True)
    ]
    return table(("", *names[:_TOKENS]), rows, kind="steps") + more(_TOKENS, len(names), "tokens")


def _cell(exists: float, compose: float) -> Markup:
    return Markup(
        f'<span title="e {exists:.3f}, c {compose:.3f}"><i style="height: {exists:.1%}"></i>'
        f'<b style="width: {compose:.1%}"></b></span>'
    )
