"""Trees as pictures: tokens on one line, and above them the nodes, each as high as what is below it is deep.

A picture is a complete SVG document with styles for light and dark. The opacity of a node shows its probability. Spans,
steps and probabilities are in ``data-`` attributes, for scripts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from xml.sax.saxutils import escape, quoteattr

from attrs import frozen
from rich.cells import cell_len

from crvnn_core.display.palette import COLOURS
from crvnn_core.trees.formats.escapes import visible
from crvnn_core.trees.tree import Node, Tree

_SIZE = 15  # of the letters, in pixels, as in the style below
_LETTER = 0.602 * _SIZE  # the width of a letter that is as wide as all others
_GAP, _MARGIN = 18, 16
_LONGEST = 24  # letters of a token that are shown; the rest is in its tooltip
_TALLEST = 1500  # pixels, within which the levels of a deep tree stand closer
_COLOURS = {  # in the light, and in the dark
    "ink": COLOURS["ink"],
    "edge": ("#8c959f", "#6e7681"),
    "sure": COLOURS["e"],
    "late": COLOURS["muted"],
    "paper": COLOURS["surface"],
    "odd": COLOURS["wrong"],
}
_RULES = """
.crvnn-tree .paper { fill: @paper; }
.crvnn-tree .edge { fill: none; stroke: @edge; stroke-width: 1.5; }
.crvnn-tree .edge.strange { stroke: @odd; stroke-dasharray: 3 3; }
.crvnn-tree .token { fill: @ink; text-anchor: middle; white-space: pre; font-size: 15px;
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
.crvnn-tree .strange.token { fill: @odd; text-decoration: underline dashed; }
.crvnn-tree .node circle { fill: @sure; stroke: @sure; stroke-width: 1.5; }
.crvnn-tree .node.late circle { fill: @late; stroke: @late; stroke-dasharray: 2 1.5; }
.crvnn-tree .node.conflict circle { fill: @odd; stroke: @odd; }
.crvnn-tree .node.conflict .cross { fill: none; stroke: @paper; stroke-width: 1.5; }
.crvnn-tree g.node circle.back { fill: @paper; stroke: none; }
.crvnn-tree .node:hover circle { stroke-width: 4; }
"""


def _style() -> str:
    """The rules, with every colour twice: few viewers but browsers know variables, and the others pass over them."""
    light, dark = (
        "".join(f" --{name}: {pair[place]};" for name, pair in _COLOURS.items()) for place in (0, 1)
    )
    rules = re.sub(
        r"(fill|stroke): @(\w+);",
        lambda found: f"{found[1]}: {_COLOURS[found[2]][0]}; {found[1]}: var(--{found[2]});",
        _RULES,
    )
    return f"\n.crvnn-tree {{{light} }}\n@media (prefers-color-scheme: dark) {{ .crvnn-tree {{{dark} }} }}{rules}"


@frozen
class _Layout:
    """Where everything stands: the middle of each token and node, and how high the nodes are."""

    tokens: Sequence[float]
    nodes: Sequence[tuple[float, float]]
    width: float
    baseline: float


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A whole ``<svg>``, with a title, a description and its own colours for light and dark.

    :param unknown: positions of tokens that the model does not know; they are drawn dashed.
    """
    layout = _layout(tree)
    height = layout.baseline + _MARGIN
    title = f"Tree over {len(tree.tokens)} token{'s' * (len(tree.tokens) != 1)}"
    size = f'width="{layout.width:.0f}" height="{height:.0f}" viewBox="0 0 {layout.width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="crvnn-tree" role="img" aria-label={quoteattr(title)} {size}>',
        f"<title>{title}</title>",
        f"<desc>{escape(_description(tree, unknown))}</desc>",
        f"<style>{escape(_style())}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        *_edges(tree, layout, unknown),
        *(_node(node, *place) for node, place in zip(tree.nodes, layout.nodes, strict=True)),
        *(
            _token(number, token, layout.tokens[number], layout.baseline, number in unknown)
            for number, token in enumerate(tree.tokens)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _layout(tree: Tree) -> _Layout:
    middles, right = [], float(_MARGIN)
    for token in tree.tokens:
        width = max(_LETTER * cell_len(_shown(token)), _LETTER)
        middles.append(right + width / 2)
        right += width + _GAP
    level = max(2.0, min(30.0, _TALLEST / max(tree.depth, 1)))
    top = _MARGIN + 6
    baseline = top + level * tree.depth + 1.6 * _SIZE
    leaf = baseline - 1.2 * _SIZE
    at = list(middles)  # by the first token of a node
    places = []
    for node, height in zip(tree.nodes, tree.heights(), strict=True):
        at[node.start] = (at[node.start] + at[node.split]) / 2
        places.append((at[node.start], leaf - level * height))
    return _Layout(middles, places, right - _GAP + _MARGIN, baseline)


def _shown(token: str) -> str:
    text = visible(token, spaces=True)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _edges(tree: Tree, layout: _Layout, unknown: Collection[int]) -> list[str]:
    """From each node along its own height to above its children, and down to them: no two of these ever cross."""
    leaf = layout.baseline - 1.1 * _SIZE
    found = []
    for (x, y), pair in zip(layout.nodes, tree.children(), strict=True):
        for child in pair:
            to_x, to_y = layout.nodes[child] if child >= 0 else (layout.tokens[~child], leaf)
            bend = min(6.0, abs(to_x - x), to_y - y)
            turn = to_x - bend if to_x > x else to_x + bend
            strange = " strange" if child < 0 and ~child in unknown else ""
            found.append(
                f'<path class="edge{strange}" d="M{x:.1f} {y:.1f}H{turn:.1f}Q{to_x:.1f} {y:.1f} '
                f'{to_x:.1f} {y + bend:.1f}V{to_y:.1f}"/>'
            )
    return found


def _node(node: Node, x: float, y: float) -> str:
    known = {"step": node.step, "chance": node.chance, "conflict": node.conflict}
    data = "".join(f' data-{name}="{value!r}"' for name, value in known.items() if value is not None)
    kind = " late" if node.step is None and node.chance is not None else ""
    full = "" if node.chance is None else f' fill-opacity="{0.08 + 0.92 * node.chance**2:.2f}"'
    cross = ""
    if node.conflict is not None:
        kind, full = " conflict", ""
        cross = f'<path class="cross" d="M{x - 2:.1f} {y - 2:.1f}l4 4m0 -4l-4 4"/>'
    at = f'cx="{x:.1f}" cy="{y:.1f}"'
    return (
        f'<g class="node{kind}" data-start="{node.start}" data-split="{node.split}" data-end="{node.end}"{data}>'
        f"<title>{escape(_told(node))}</title>"
        f'<circle class="back" {at} r="4.5"/><circle {at} r="4.5"{full}/>{cross}</g>'
    )


def _told(node: Node) -> str:
    """A node's tooltip."""
    words = f"tokens {node.start + 1} to {node.end}, joined after token {node.split}"
    if node.step is not None:
        words += f"; in step {node.step}"
    elif node.chance is not None:
        words += "; only when all steps were over"
    if node.chance is not None:
        words += f"; {node.chance:.1%} composed by then"
    if node.conflict is not None:
        words += (
            f"; conflict: what tokens {node.start + 1} to {node.split} gave was lost in step {node.conflict}"
        )
    return words


def _token(number: int, token: str, x: float, y: float, strange: bool) -> str:
    told = f"token {number + 1}: {visible(token, spaces=True)}"
    told += ", which the model does not know" if strange else ""
    return (
        f'<text class="{"strange " if strange else ""}token" x="{x:.1f}" y="{y:.1f}" data-position="{number}" '
        f"data-token={quoteattr(visible(token, spaces=True))}>{escape(_shown(token))}"
        f"<title>{escape(told)}</title></text>"
    )


def _description(tree: Tree, unknown: Collection[int]) -> str:
    """The tree in words, for those who do not see it."""
    text = str(tree)
    shown = text if len(text) <= 500 else f"{text[:500]}…"
    odd = ", ".join(visible(tree.tokens[place], spaces=True) for place in sorted(unknown))
    return f"{shown} — {tree.depth} levels deep." + (f" Not known to the model: {odd}." if odd else "")
