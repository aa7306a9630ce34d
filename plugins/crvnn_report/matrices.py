"""Pictures of numbers between 0 and 1 in rows and columns: heat maps of a recursion, and confusion matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from crvnn_report.svg import picture, plain, text, tip

_LETTER = 7.2  # the width of one, about
_FAINT = 0.005  # what is below is drawn as nothing


@frozen
class Matrix:
    """What to draw: names of rows and columns, and a share from 0 to 1 for each place."""

    rows: Sequence[str]
    columns: Sequence[str]
    shares: Sequence[Sequence[float]]
    #: What is written in a place, and what is said of it when it is pointed at.
    written: Callable[[int, int], str]
    said: Callable[[int, int], str]
    across: str = ""
    down: str = ""
    #: Places to be ringed.
    ringed: frozenset[tuple[int, int]] = frozenset()
    #: Columns whose names stand for something unknown.
    strange: frozenset[int] = frozenset()

    def draw(self, title: str, description: str, kind: str, cell: tuple[float, float]) -> str:
        """As SVG; ``kind`` decides its colour."""
        wide, high = cell
        upright = max(map(len, self.columns), default=0) * _LETTER + 4 > wide
        names = [_cut(name) for name in self.columns]
        head = min(max(map(len, names), default=1), 16) * _LETTER * 0.78 + 12 if upright else 20.0
        head += 16 if self.across else 0
        side = max(48.0, max(len(_cut(name)) for name in self.rows) * _LETTER + 12)
        side += 16 if self.down else 0
        ledge = head * 0.75 if upright else 4.0  # names that lean to the right need room there
        width, height = side + wide * len(self.columns) + ledge, head + high * len(self.rows) + 6
        parts = [
            f'<rect class="bed" x="{side:.1f}" y="{head:.1f}" width="{wide * len(self.columns):.1f}" '
            f'height="{high * len(self.rows):.1f}" rx="3"/>'
        ]
        parts += self._names(names, side, head, cell, upright)
        for i, row in enumerate(self.shares):
            parts += [self._place(i, j, share, side, head, cell, kind) for j, share in enumerate(row)]
        return picture(
            title, description, (round(width, 1), round(height, 1)), "".join(parts), "chart matrix"
        )

    def _names(
        self, names: Sequence[str], side: float, head: float, cell: tuple[float, float], upright: bool
    ) -> list[str]:
        wide, high = cell
        parts = []
        for j, name in enumerate(names):
            x = side + (j + 0.5) * wide
            kind = "token strange" if j in self.strange else "token"
            if upright:
                turn = f' transform="rotate(-52 {x - 1:.1f} {head - 5:.1f})"'
                parts.append(text(x - 1, head - 5, name, kind, turn))
            else:
                parts.append(text(x, head - 6, name, f"{kind} middle"))
        every = max(1, round(13 / high))
        for i, name in enumerate(self.rows):
            if i % every == 0:
                parts.append(text(side - 6, head + (i + 0.5) * high + 4, _cut(name), "tick end"))
        if self.across:
            parts.append(text(side + wide * len(names) / 2, 11, self.across, "label middle"))
        if self.down:
            y = head + high * len(self.rows) / 2
            parts.append(text(11, y, self.down, "label middle", f' transform="rotate(-90 11 {y:.1f})"'))
        return parts

    def _place(
        self, i: int, j: int, share: float, side: float, head: float, cell: tuple[float, float], kind: str
    ) -> str:
        written, ringed = self.written(i, j), (i, j) in self.ringed
        if share < _FAINT and not written and not ringed:
            return ""
        wide, high = cell
        x, y = side + j * wide, head + i * high
        box = f'x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{wide - 1:.1f}" height="{high - 1:.1f}"'
        shade = f'<rect class="{kind}" {box} rx="2" fill-opacity="{share:.2f}"/>'
        if written:
            strong = " over" if share > 0.55 else ""
            shade += text(x + wide / 2, y + high / 2 + 3.5, written, f"value{strong}")
        if ringed:
            shade += f'<rect class="ring" {box} rx="2"/>'
        said = self.said(i, j)
        return f"<g>{tip(said)}{shade}</g>" if said else shade


def scale(kind: str, low: str, high: str) -> str:
    """The colours of a matrix from 0 to 1."""
    steps = "".join(
        f'<rect class="bed" x="{12 * i}" width="12" height="10"/>'
        f'<rect class="{kind}" x="{12 * i}" width="12" height="10" fill-opacity="{i / 9:.2f}"/>'
        for i in range(10)
    )
    title = f"Colours from {low} to {high}"
    return f'<span class="scale">{plain(low)} {picture(title, title, (120, 10), steps, "ramp")} {plain(high)}</span>'


def _cut(name: str, most: int = 16) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
