"""Scores from windows of soft neighbours: a convolution, an activation and a linear map."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from crvnn_core import Neighbourhood
from crvnn_core.kernels import Operation, serves
from crvnn_parts.layers import ACTIVATIONS, Activation, activation
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.operations.library import PARTS


@Operation
def window_scores(
    vectors: Tensor,
    near: Neighbourhood,
    left_c: Tensor,
    reach: int,
    layers: list[Tensor],
    features: tuple[Tensor | None, Tensor | None],
    kind: Activation,
) -> Tensor:
    """Scores [B, n] of the windows of vectors [B, n, d].

    :param layers: weight and bias of the convolution, and of the score.
    :param features: the transition features of composed and untouched positions, if there are any.
    """
    (weight, bias, score, score_bias), (composed, untouched) = layers, features
    window = near.stacked(vectors, reach)  # left_m ... left_1, self, right_1 ... right_m
    if composed is None or untouched is None:
        mixed = nn.functional.linear(window, weight, bias)
    else:
        # The features are affine in left(c), and so is their term of the convolution.
        split = window.shape[-1]
        weight, of_features = torch.split(weight, [split, weight.shape[1] - split], 1)
        slope = of_features @ (composed - untouched)
        mixed = nn.functional.linear(window, weight, bias + of_features @ untouched)
        mixed = torch.addcmul(mixed, left_c.to(mixed.dtype).unsqueeze(-1), slope)
    return nn.functional.linear(activation(kind)(mixed), score, score_bias).squeeze(-1)


@window_scores.attach
@PARTS.backend
def _compiled(
    ops: Any,
    vectors: Tensor,
    near: Neighbourhood,
    left_c: Tensor,
    reach: int,
    layers: list[Tensor],
    features: tuple[Tensor | None, Tensor | None],
    kind: Activation,
) -> Any:
    if not serves(layers[0]):
        return NotImplemented
    weights = (*layers, *features, ACTIVATIONS.index(kind))
    if isinstance(near, CompiledIntervals) and reach:
        return near.scores(vectors, reach, left_c, *weights)
    return ops.window_scores(near.stacked(vectors, reach).contiguous(), left_c.contiguous(), *weights)
