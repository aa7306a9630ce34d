"""A third party's encoder in a plug-in file: attention over the tokens, soft or hard."""

from pathlib import Path

import torch
from torch import nn

from crvnn_core import Component, Encoder, Encoding, hookimpl

PLUGIN = Path(__file__)


class Attention(Encoder):
    """The mean of the tokens weighted by a softmax; with ``hard``, the one token with the highest weight."""

    hard_inference = True

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.score = nn.Linear(width, 1)

    def forward(self, inputs, mask, *, trace=False, hard=False):
        scores = self.score(inputs).squeeze(-1).masked_fill(~mask, -torch.inf)  # [B, n]
        weights = scores.softmax(-1)
        if hard:
            weights = nn.functional.one_hot(scores.argmax(-1), mask.shape[1]).to(inputs.dtype)
        vector = (weights.unsqueeze(-1) * inputs.masked_fill(~mask.unsqueeze(-1), 0)).sum(1)
        return Encoding(vector, vector.new_zeros(len(vector)), mask.new_ones(len(mask), dtype=torch.long))


@hookimpl
def crvnn_encoders():
    return [Component("attention", Attention, summary="attention over the tokens")]
