"""The soft neighbours of Eq. 5, by kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import FORMS, Kernels, ready


class Along(Neighbourhood):
    """Neighbours along the line that existence [B, n] spans (docs/explanation/linear-time.md).

    What it was asked before it remembers, as the parts of a step ask for the same.
    """

    def __init__(self, exists: Tensor, kernels: Kernels) -> None:
        self.kernels = kernels
        self.exists = exists.contiguous()
        self.spans, self.shares = kernels.line(self.exists.detach())
        self._lefts: list[tuple[Tensor, Tensor]] = []

    def left(self, values: Tensor) -> Tensor:
        for asked, answer in self._lefts:
            if asked is values:
                return answer
        self._lefts.append((values, self._neighbour(values, 0)))
        return self._lefts[-1][1]

    def right(self, values: Tensor) -> Tensor:
        return self._neighbour(values, 1)

    def stacked(self, values: Tensor, reach: int) -> Tensor:
        if not reach or values.dim() != 3 or ready(values) is None:
            return super().stacked(values, reach)
        found: Tensor
        found, left = self.kernels.window(values.contiguous(), self.exists, self.spans, self.shares, reach)
        self._lefts.append((values, left))
        return found

    def scored(self, values: Tensor, reach: int, gained: Tensor, *layers: Tensor | int | None) -> Tensor:
        """Scores from the windows of values; ``crvnn_plugins.scorers`` has them written out."""
        line = (self.exists, self.spans, self.shares)
        found: Tensor
        found, left = self.kernels.scored_along(
            values.contiguous(), *line, reach, gained.contiguous(), *layers
        )
        self._lefts.append((values, left))
        return found

    def modulated(self, scores: Tensor, eligible: Tensor, form: str, stretch: float = 0.0) -> Tensor:
        """Decisions in which neighbours hold each other back; ``decisions.sigmoids`` has them written out."""
        line = (self.exists, self.spans, self.shares)
        found: Tensor = self.kernels.modulated(
            scores.contiguous(), eligible.expand_as(scores).contiguous(), *line, FORMS.index(form), stretch
        )
        return found

    def advance(
        self, compose: Tensor, exists: Tensor, eligible: Tensor, tokens: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decisions c [B, n] where they may be, left(c), and e (1 - c); ``engine.recursion`` has them written out."""
        state = [value.contiguous() for value in (compose, exists, eligible, tokens)]
        found: tuple[Tensor, Tensor, Tensor] = self.kernels.advance(
            *state, self.exists, self.spans, self.shares
        )
        return found

    def _neighbour(self, values: Tensor, side: int) -> Tensor:
        if ready(values) is None:
            return self._written_out(values, side)
        found: Tensor = self.kernels.neighbour(
            values.contiguous(), self.exists, self.spans, self.shares, side
        )
        return found

    def _written_out(self, values: Tensor, side: int) -> Tensor:
        """The same with torch, for what kernels do not take: a sum over a run, and a share of what is behind it."""
        wide = (values.unsqueeze(-1) if values.dim() == 2 else values).double()
        exists = self.exists.double().unsqueeze(-1)
        line, sums = (pad(part.cumsum(1), (0, 0, 1, 0)) for part in (exists, exists * wide))
        n = wide.shape[1]
        own, border = torch.arange(n, device=wide.device).expand_as(self.exists), self.spans[:, side].long()
        begin, end = (border, own) if side == 0 else (own + 1, border)
        behind = border - 1 if side == 0 else border

        def at(table: Tensor, places: Tensor) -> Tensor:
            return table.gather(1, places.unsqueeze(-1).expand(-1, -1, table.shape[-1]))

        share = (1 + at(line, begin) - at(line, end)) * ((behind >= 0) & (behind < n)).unsqueeze(-1)
        found: Tensor = at(sums, end) - at(sums, begin) + share * at(wide, behind.clamp(0, n - 1))
        return found.view(values.shape).to(values.dtype)


def along(exists: Tensor, present: Tensor | None = None) -> Along | None:
    """The neighbours along what exists and is present, if the kernels are ready for this."""
    kernels = ready(exists)
    if kernels is None:
        return None
    if present is not None and not present.all():  # seldom, in a recursion: cheaper to look than to multiply
        exists = exists * present
    return Along(exists, kernels)
