"""How a trace draws itself in a notebook, once this module has been imported: the engine knows no HTML."""

from __future__ import annotations

from crvnn_core.display.notebook import LEGEND, line, more, page, steps
from crvnn_core.engine.trace import Trace
from crvnn_core.views import view

_SEQUENCES = 4  # that are shown


@view.register
def _trace(trace: Trace) -> str:
    parts: list[str] = []
    for row in range(min(len(trace.mask), _SEQUENCES)):
        n, taken = int(trace.mask[row].sum()), int(trace.steps[row])
        exists = trace.exists[: taken + 1, row, :n].tolist()
        compose = trace.compose[:taken, row, :n].tolist()
        tokens = f"{n:,} token{'s' * (n != 1)}"
        parts += [
            line(f"sequence {row + 1}: {tokens}, {taken:,} step{'s' * (taken != 1)}"),
            steps([str(place + 1) for place in range(n)], exists, compose),
        ]
    return page(*parts, more(_SEQUENCES, len(trace.mask), "sequences"), LEGEND)
