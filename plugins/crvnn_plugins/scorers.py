"""Scorers: how much each position wants to be composed with its right neighbour."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Neighbourhood, Scorer
from crvnn_core.kernels import KINDS, as_made, ready
from crvnn_core.kernels.along import Along
from crvnn_plugins.activations import Activation, activation
from crvnn_plugins.layers import linear


class WindowScorer(Scorer):
    """A convolution over the soft neighbours left_m and right_m, then one score a position.

    :param window: neighbours looked at in all, with the position itself: an odd number.
    :param transition: size of the features that say whether the position is a new parent; 0 for none.
    :param activation: between the convolution and the score.
    """

    def __init__(
        self, width: int, window: int = 5, transition: int = 64, activation: Activation = "gelu"
    ) -> None:
        super().__init__()
        if window < 1 or window % 2 == 0:
            raise ValueError(f"window must be an odd number, not {window}")
        if transition < 0:
            raise ValueError(f"transition cannot be negative, got {transition}")
        self.width, self.reach, self.activation = width, window // 2, activation
        self.convolution = linear(window * width + transition, width)
        self.score = linear(width, 1)
        self.composed = nn.Parameter(torch.randn(transition)) if transition else None
        self.untouched = nn.Parameter(torch.randn(transition)) if transition else None

    def forward(self, vectors: Tensor, near: Neighbourhood, gained: Tensor) -> Tensor:
        layers = as_made(self.convolution, self.score)
        if layers is not None and (kernels := ready(vectors, gained, layers[0])) is not None:
            more = (self.composed, self.untouched, KINDS.index(self.activation))
            if isinstance(near, Along) and self.reach:
                return near.scored(vectors, self.reach, gained, *layers, *more)
            window = near.stacked(vectors, self.reach).contiguous()
            found: Tensor = kernels.scored(window, gained.contiguous(), *layers, *more)
            return found
        window = near.stacked(vectors, self.reach)  # left_m ... left_1, self, right_1 ... right_m
        if self.composed is None or self.untouched is None:
            mixed = self.convolution(window)
        elif layers is None:  # somebody has changed the convolution, so it must be asked itself
            features = self.untouched + gained.unsqueeze(-1) * (self.composed - self.untouched)
            mixed = self.convolution(torch.cat([window, features.to(window.dtype)], -1))
        else:
            # The features are an affine function of left(c), so their share of the convolution is one too.
            split = window.shape[-1]
            weight, of_features = torch.split(layers[0], [split, layers[0].shape[1] - split], 1)
            slope = of_features @ (self.composed - self.untouched)
            mixed = nn.functional.linear(window, weight, layers[1] + of_features @ self.untouched)
            mixed = torch.addcmul(mixed, gained.to(mixed.dtype).unsqueeze(-1), slope)
        scores: Tensor = self.score(activation(self.activation)(mixed))
        return scores.squeeze(-1)
