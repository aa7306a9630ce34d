"""Efficient Beam Tree recursion."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Count, CountOrZero, check_ranges
from crvnn_parts.encoders.trees.beams import BeamEncoder


class EfficientBeamTree(BeamEncoder):
    """EBT-GRC: beam search over merges, scored by part of the children (Ray Chowdhury and Caragea, 2023).

    The paper is "Efficient Beam Tree Recursion". Like ``beam-tree``, but a pair is scored by a small network from the
    first ``score_width`` numbers of both children, so that only pairs that merge are composed: n - 1 compositions a
    beam. In training, merges are selected with Gumbel noise on their scores; the log-probabilities that accumulate
    have none. The cell ``gated`` is the paper's GRC.

    :param beam: beams that are kept. With 1 the search is greedy, and the scores have no gradient.
    :param score_width: the numbers of each child that a pair is scored from, and the hidden units of the network; 0 for
        half of the width. The paper has 64 of 128.
    """

    noisy_selection = True

    @check_ranges
    def __init__(self, width: int, cell: Cell, beam: Count = 5, score_width: CountOrZero = 0) -> None:
        if score_width > width:
            raise ValueError(f"score_width must be at most the width, which is {width}; got {score_width}")
        super().__init__(width, cell, beam)
        self.score_width = score_width or (width + 1) // 2
        self.scorer = nn.Sequential(
            nn.Linear(2 * self.score_width, self.score_width),
            nn.GELU(),
            nn.Linear(self.score_width, 1, bias=False),  # a bias would cancel in the softmax
        )

    def score(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor | None]:
        children = [self.cell.readout(each)[..., : self.score_width] for each in (left, right)]
        return self.scorer(torch.cat(children, -1)).squeeze(-1), None
