"""Sparsemax over the row: composition probabilities that share a fixed total, most of them exactly 0 or 1."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from crvnn_core import Decision, Neighbourhood
from crvnn_core.annotations import Positive, Range, check_ranges
from crvnn_core.precision import at_least_float32, wide

#: Sums and probabilities this close are equal: rounding decides neither which positions saturate nor their gradient.
_CLOSE = 1e-7


class Sparsemax(Decision):
    """Composes a share of what exists in each step, and of it the positions with the highest scores.

    c = clip(u - tau, 0, 1) with the tau of each row for which the e-weighted sum of c over eligible positions is
    ``share`` of the sum of e there, or 1 if that is less. So about log(n) steps compose n tokens, and positions with
    e = 0 change nothing. With all e = 1 and a sum of 1 it is the sparsemax of Martins and Astudillo (2016).

    :param share: of what exists, how much is composed in a step.
    :param temperature: by which scores are divided: the lower, the fewer c lie strictly between 0 and 1.
    :param modulation: ``paper`` takes u for the logit of the paper's modulated sigmoid, in which neighbours compete as
        well; ``none`` takes the scores.
    """

    gradient_vanishes = True

    @check_ranges
    def __init__(
        self,
        share: Annotated[float, Range(gt=0, le=1)] = 0.5,
        temperature: Positive = 1.0,
        modulation: Literal["none", "paper"] = "paper",
    ) -> None:
        super().__init__()
        self.share, self.temperature, self.modulation = share, temperature, modulation

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        scores = at_least_float32(scores)
        if self.modulation == "paper":
            left, _, right = near.window(scores, 1)
            scores = scores - torch.logsumexp(torch.stack([left, right, torch.zeros_like(left)]), 0)
        chosen = sparsemax(scores / self.temperature, exists * eligible, self.share)
        return chosen.to(scores.dtype) * eligible


def sparsemax(scores: Tensor, weights: Tensor, share: float) -> Tensor:
    """clip(u - tau, 0, 1) [B, n], whose weighted sum is max(1, share * sum of weights) in each row.

    Where the weights sum to less than that, it is 1 everywhere. Its gradient is exactly 0 where it is 0 or 1.

    :param scores: u [B, n]; those of weight 0 do not change the others' results.
    :param weights: [B, n], not negative.
    """
    u, w = wide(scores), wide(weights)
    highest = u.detach().masked_fill(w == 0, -math.inf).amax(1, keepdim=True)
    u = u - highest.masked_fill(highest.isinf(), 0)  # tau moves along; small differences keep their digits
    total = (share * w.sum(1, keepdim=True)).clamp(min=1)  # [B, 1]
    tau = _threshold(u.detach(), w.detach(), total.detach())
    one, active = u > tau + 1 - _CLOSE, (u > tau + _CLOSE) & (u < tau + 1 - _CLOSE)
    mass = (w * active).sum(1, keepdim=True)
    # Between two breakpoints tau solves a linear equation, through which its gradient flows.
    excess = (w * u * active + w * one).sum(1, keepdim=True) - total
    tau = torch.where(mass > _CLOSE, excess / mass.clamp(min=_CLOSE), tau)
    chosen = (u - tau).clamp(0, 1)
    return torch.where(active, chosen, one.to(chosen.dtype)).to(scores.dtype)


def _threshold(u: Tensor, w: Tensor, total: Tensor) -> Tensor:
    """The tau [B, 1] at which f(tau) = sum of w clip(u - tau, 0, 1) reaches ``total``; the lowest breakpoint if never.

    f is piecewise linear and grows while tau falls from one breakpoint to the next: below u_i by w_i more steeply, and
    below u_i - 1 by w_i less.
    """
    breakpoints, order = torch.cat([u, u - 1], 1).sort(1, descending=True)  # [B, 2 n]
    slope = torch.cat([w, -w], 1).gather(1, order).cumsum(1)  # of f below each breakpoint
    width = torch.diff(breakpoints, dim=1, append=breakpoints[:, -1:]).neg()
    reached = (slope * width).cumsum(1) - slope * width  # f at each breakpoint
    last = (reached < total - _CLOSE).sum(1, keepdim=True) - 1  # the last breakpoint before the total
    missing = (total - reached.gather(1, last)) / slope.gather(1, last)
    return breakpoints.gather(1, last) - missing.clamp(min=0).minimum(width.gather(1, last))
