"""Modulated decisions: sigmoids in which a position gives way to neighbours that score higher."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from crvnn_core import Neighbourhood
from crvnn_core.kernels import Operation
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.operations.library import PARTS

#: The forms, in the order of ``Form`` in modulated.h.
Form = Literal["paper", "bounded", "reference"]
FORMS: tuple[Form, ...] = get_args(Form)
LINEAR_ABOVE = 12.0  # the score above which exp(u) of the bounded form is linear, as in modulated.h
GUARD = 4e-8  # what the published code adds to the sum of 4 terms, 1e-8 to each, as in modulated.h


@Operation
def modulated(
    scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor, form: Form, stretch: float
) -> Tensor:
    """A modulated sigmoid in one of its forms (docs/explanation/presets.md), stretched and clipped."""
    if form == "paper":
        rivals = [*near.window(scores, 1), torch.zeros_like(scores)]
        return stretched(torch.softmax(torch.stack(rivals, -1), -1)[..., 1] * eligible, stretch)
    if form == "bounded":
        scores = _bounded(scores).masked_fill(~eligible, -math.inf)
        top = scores.detach().amax(1, keepdim=True).clamp(min=0)  # by row: batch-mates never matter
        return stretched(_among_neighbours(scores, near, top, torch.exp(-top)), stretch)
    # The guard is relative to the maximum, for which START, END and what is gone count too in the published code.
    top = scores.masked_fill(~(eligible | (exists > 0)), 0).amax(1, keepdim=True).clamp(min=0)
    highest = top.detach()
    others = torch.exp(-highest) + GUARD * torch.exp(top - highest)
    scores = scores.masked_fill(~eligible, -math.inf)
    return stretched(_among_neighbours(scores, near, highest, others), stretch)


@modulated.attach
@PARTS.backend
def _compiled(
    ops: Any,
    scores: Tensor,
    near: Neighbourhood,
    eligible: Tensor,
    exists: Tensor,
    form: Form,
    stretch: float,
) -> Any:
    if not isinstance(near, CompiledIntervals):
        return NotImplemented
    flags = eligible.expand_as(scores).contiguous()
    return ops.modulated(scores.contiguous(), flags, *near.operands, FORMS.index(form), stretch)


def _among_neighbours(scores: Tensor, near: Neighbourhood, highest: Tensor, others: Tensor) -> Tensor:
    """exp(u) / (exp(u) + left(exp(u)) + right(exp(u)) + others), where exp(-highest) was multiplied to each term."""
    strength = torch.exp(scores - highest)
    left, _, right = near.window(strength, 1)
    rivals = left + right + others
    total = strength + rivals
    # The same twice: where c is close to 1, the derivative of the first is the difference of two numbers close to 1.
    return torch.where(strength < rivals, strength / total, 1 - rivals / total)


def stretched(soft: Tensor, stretch: float) -> Tensor:
    return ((1 + 2 * stretch) * soft - stretch).clamp(0, 1) if stretch else soft  # 0 stays 0


def _bounded(scores: Tensor) -> Tensor:
    """The log of exp(u) continued along its tangent above ``LINEAR_ABOVE``; docs/explanation/presets.md says why."""
    above = (scores - LINEAR_ABOVE).clamp(min=0)
    return torch.where(scores > LINEAR_ABOVE, LINEAR_ABOVE + torch.log1p(above), scores)
