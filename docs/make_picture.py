"""Draws docs/images/recursion.svg: the paper's Table 1, as this engine runs it. ``make docs`` calls this."""

from __future__ import annotations

from html import escape
from pathlib import Path

import torch

from crvnn_core import Recursion
from crvnn_core.testing.parts import BracketingCell, PlainScorer, ScriptedDecision
from crvnn_parts.haltings import Threshold
from crvnn_parts.retrievers.interval import Adhoc

TOKENS = ("x1", "x2", "x3", "x4", "x5", "x6")
COMPOSED = ((1, 4), (0, 3), (2,))  # positions composed with their right neighbour in each step
COLUMN, ROW, LEFT, TOP = 128, 76, 96, 20
STYLE = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2933; }
  .note { fill: #627384; font-size: 12px; }
  .box { fill: #e3ecf7; stroke: #4a78b0; }
  .new { fill: #fbe6cf; stroke: #c27a2c; }
  .gone { fill: none; stroke: #b8c2cc; stroke-dasharray: 3 3; }
  .arrow { stroke: #c27a2c; stroke-width: 2; fill: none; marker-end: url(#head); }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; } .note { fill: #9aa5b1; }
    .box { fill: #243b55; stroke: #6ea0dc; } .new { fill: #4f3618; stroke: #e0a05a; } .gone { stroke: #52606d; }
  }
"""


def picture() -> str:
    """The recursion as SVG."""
    cell = BracketingCell(1, TOKENS)
    decision = ScriptedDecision(COMPOSED)
    engine = Recursion(1, Adhoc(), PlainScorer(1), decision, cell, Threshold(), boundaries=False)
    n = len(TOKENS)
    state = engine.begin(torch.arange(float(n)).view(1, n, 1), torch.ones(1, n, dtype=torch.bool))
    shapes: list[str] = []
    for step in range(len(COMPOSED) + 1):
        label = f"step {step + 1}" if step < len(COMPOSED) else "the end"
        shapes.append(f'<text x="12" y="{_middle(step) + 4}" class="note">{label}</text>')
        fresh = {i for i in range(n) if state.left_c[0, i] > 0.5}
        exists = state.exists[0].tolist()
        shapes += [_node(step, i, cell.name(state.nodes[0, i]), exists[i], i in fresh) for i in range(n)]
        if step < len(COMPOSED):
            shapes += [_arrow(step, i, exists) for i in COMPOSED[step]]
            _, state = engine.step(state)
    width, height = LEFT + COLUMN * n + 60, TOP + ROW * (len(COMPOSED) + 1)
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#c27a2c"/></marker>'
    )
    title = "Six tokens become one tree in three steps; the nodes of a level are composed at once."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n<defs>{head}</defs>\n"
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _middle(step: int) -> int:
    return TOP + ROW * step + 16


def _node(step: int, place: int, name: str, exists: float, fresh: bool) -> str:
    kind = "gone" if exists < 0.5 else "new" if fresh else "box"
    half = max(26, 3.6 * len(name)) if exists >= 0.5 else 12
    x, y = LEFT + COLUMN * place + COLUMN / 2, _middle(step)
    box = f'<rect class="{kind}" x="{x - half:.0f}" y="{y - 15}" width="{2 * half:.0f}" height="30" rx="8"/>'
    text = (
        f'<text x="{x:.0f}" y="{y + 4}" text-anchor="middle">{escape(name)}</text>' if exists >= 0.5 else ""
    )
    return box + text


def _arrow(step: int, place: int, exists: list[float]) -> str:
    """From a child to the next position that still exists, where its parent will be."""
    other = next(i for i in range(place + 1, len(exists)) if exists[i] > 0.5)
    x, y = LEFT + COLUMN * place + COLUMN / 2, _middle(step) + 15
    end = LEFT + COLUMN * other + COLUMN / 2
    return f'<path class="arrow" d="M{x:.0f},{y} C{x:.0f},{y + 26} {end:.0f},{y + 12} {end:.0f},{y + 44}"/>'


if __name__ == "__main__":
    target = Path(__file__).parent / "images" / "recursion.svg"
    target.write_text(picture(), encoding="utf-8")
    print(f"wrote {target.name}")
