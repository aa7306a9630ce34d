"""Decisions that take a sigmoid of each score: plain, modulated by neighbours, tempered, noisy, hard, or stretched."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor

from crvnn_core import Decision, Neighbourhood, Scheduled
from crvnn_core.annotations import Positive, Range, Weight, check_ranges
from crvnn_parts.operations.modulated import Form, modulated, stretched

Modulation = Literal["none", "paper", "bounded"]


def relax(
    scores: Tensor,
    near: Neighbourhood,
    eligible: Tensor,
    exists: Tensor,
    modulation: Modulation,
    stretch: float = 0.0,
) -> Tensor:
    """A sigmoid, which neighbours may modulate; 0 where not eligible.

    :param stretch: how far it is stretched beyond each end before it is clipped to [0, 1].
    """
    if modulation == "none":
        return stretched(torch.sigmoid(scores) * eligible, stretch)
    return modulated(scores, near, eligible, exists, modulation, stretch)


class Sigmoid(Decision):
    """Each position decides for itself."""

    gradient_vanishes = True
    can_saturate = False

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return relax(scores, near, eligible, exists, "none")


class Modulated(Decision):
    """A sigmoid in which a position gives way to neighbours that score higher.

    :param form: exp(left(u)) as in the ``paper``'s text; left(exp(u)) with the guards of the published code, as the
        ``reference``; or left(exp(u)) without them, ``bounded``: exp(u) is linear above a score of 12.
    """

    gradient_vanishes = True
    can_saturate = False
    excludes_conflicts = True

    @check_ranges
    def __init__(self, form: Form = "paper") -> None:
        super().__init__()
        self.form = form

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return modulated(scores, near, eligible, exists, self.form, 0.0)


class _MaybeModulated(Decision):
    """Excludes conflicts if neighbours hold each other back: then c_i + c_j is at most 1."""

    modulation: Modulation

    @property
    def excludes_conflicts(self) -> bool:  # type: ignore[override]
        return self.modulation != "none"


class Tempered(_MaybeModulated, Scheduled):
    """Scores divided by a temperature that goes from ``start`` to ``end`` while training progresses.

    :param start: temperature at the beginning of training.
    :param end: final temperature: at the end of training, and afterwards.
    :param schedule: how it gets from one to the other.
    :param modulation: whether neighbours hold each other back, and in which form.
    """

    gradient_vanishes = True
    can_saturate = False
    live_settings = ("end", "modulation")

    @check_ranges
    def __init__(
        self,
        start: Positive = 1.0,
        end: Positive = 0.5,
        schedule: Literal["linear", "exponential"] = "exponential",
        modulation: Modulation = "paper",
    ) -> None:
        super().__init__()
        self.start, self.end, self.schedule, self.modulation = start, end, schedule, modulation
        self.add_progress()

    @property
    def temperature(self) -> Tensor:
        """The temperature at the present point of training."""
        if self.schedule == "linear":
            return self.start + (self.end - self.start) * self.progress
        return self.start * torch.exp(math.log(self.end / self.start) * self.progress)

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return relax(scores / self.temperature.to(scores.dtype), near, eligible, exists, self.modulation)


class GumbelSigmoid(_MaybeModulated):
    """Adds logistic noise (the difference of two Gumbel variables) to the scores in training, none afterwards.

    :param temperature: by which scores and noise are divided.
    :param modulation: whether neighbours hold each other back, and in which form.
    """

    gradient_vanishes = True
    can_saturate = False

    @check_ranges
    def __init__(self, temperature: Positive = 1.0, modulation: Modulation = "paper") -> None:
        super().__init__()
        self.temperature, self.modulation = temperature, modulation

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        if self.training:
            scores = scores + logistic_noise(scores)
        return relax(scores / self.temperature, near, eligible, exists, self.modulation)


class StraightThrough(Decision):
    """Zero or one going forward; the gradient of the soft decision going backward.

    :param threshold: from which soft probability on a position is composed.
    :param modulation: whether neighbours hold each other back, and in which form.
    """

    @check_ranges
    def __init__(
        self, threshold: Annotated[float, Range(gt=0, lt=1)] = 0.5, modulation: Modulation = "paper"
    ) -> None:
        super().__init__()
        self.threshold, self.modulation = threshold, modulation

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        soft = relax(scores, near, eligible, exists, self.modulation)
        hard = (soft >= self.threshold).to(soft.dtype)
        return hard + (soft - soft.detach()) * eligible

    def likelihood(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return relax(scores, near, eligible, exists, self.modulation)


class Stretched(_MaybeModulated):
    """A sigmoid stretched beyond [0, 1] and clipped: decisions become exact where the model is sure.

    With noise it is the hard concrete distribution (Louizos et al., 2018): what must hold against noise becomes sure.

    :param stretch: how far the sigmoid reaches beyond 0 and 1 before it is clipped.
    :param modulation: whether neighbours hold each other back, and in which form.
    :param noise: by which logistic noise on the scores is multiplied in training; 0 for none.
    """

    gradient_vanishes = True
    live_settings = ("stretch", "modulation")

    @check_ranges
    def __init__(
        self, stretch: Positive = 0.1, modulation: Modulation = "paper", noise: Weight = 0.0
    ) -> None:
        super().__init__()
        self.stretch, self.modulation, self.noise = stretch, modulation, noise

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        if self.training and self.noise:
            scores = scores + self.noise * logistic_noise(scores)
        return relax(scores, near, eligible, exists, self.modulation, self.stretch)

    def likelihood(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return relax(scores, near, eligible, exists, self.modulation)


def logistic_noise(scores: Tensor) -> Tensor:
    """The difference of two Gumbel variables, for each score."""
    return torch.logit(torch.rand_like(scores).clamp(1e-6, 1 - 1e-6))
