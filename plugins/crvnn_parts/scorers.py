"""Scorers: logits [B, n] for composing each position with its right neighbour."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from crvnn_core import Neighbourhood, Scorer
from crvnn_core.annotations import CountOrZero, Range, check_ranges
from crvnn_core.kernels import plain_parameters
from crvnn_parts.layers import Activation, activation, linear
from crvnn_parts.operations.window_scores import window_scores


class WindowScorer(Scorer):
    """A convolution over a window of soft neighbours left_m and right_m, then one score per position.

    :param window: size of the window, including the position itself; odd.
    :param transition: size of the transition features, which tell new parents from other nodes; 0 for none.
    :param activation: between the convolution and the score.
    """

    @check_ranges
    def __init__(
        self,
        width: int,
        window: Annotated[int, Range(ge=1, odd=True)] = 5,
        transition: CountOrZero = 64,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.width, self.reach, self.activation = width, window // 2, activation
        self.convolution = linear(window * width + transition, width)
        self.score = linear(width, 1)
        self.composed = nn.Parameter(torch.randn(transition)) if transition else None
        self.untouched = nn.Parameter(torch.randn(transition)) if transition else None

    def forward(self, vectors: Tensor, near: Neighbourhood, left_c: Tensor) -> Tensor:
        layers = plain_parameters(self.convolution, self.score)
        if layers is None:  # a layer has hooks or was replaced, so it must be called
            return self._layer_by_layer(vectors, near, left_c)
        features = (self.composed, self.untouched)
        return window_scores(vectors, near, left_c, self.reach, layers, features, self.activation)

    def _layer_by_layer(self, vectors: Tensor, near: Neighbourhood, left_c: Tensor) -> Tensor:
        window = near.stacked(vectors, self.reach)  # left_m ... left_1, self, right_1 ... right_m
        if self.composed is not None and self.untouched is not None:
            features = self.untouched + left_c.unsqueeze(-1) * (self.composed - self.untouched)
            window = torch.cat([window, features.to(window.dtype)], -1)
        scores: Tensor = self.score(activation(self.activation)(self.convolution(window)))
        return scores.squeeze(-1)
