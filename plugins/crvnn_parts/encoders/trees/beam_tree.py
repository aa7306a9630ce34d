"""Beam Tree recursive cells."""

from __future__ import annotations

from torch import Tensor, nn

from crvnn_core import Cell
from crvnn_core.annotations import Count, check_ranges
from crvnn_parts.encoders.trees.beams import BeamEncoder


class BeamTree(BeamEncoder):
    """BT-Cell: beam search over merges, scored by their parents (Ray Chowdhury and Caragea, 2023).

    The paper is "Beam Tree Recursive Cells". In every step, the parents of all pairs of neighbours are scored by a
    linear map. The log-softmax of the scores accumulates along each beam, and the most likely beams are kept. The
    vector is the mean of their roots, weighted by the softmax of the accumulated scores: only these weights give
    scores a gradient. Hard inference takes the root of the most likely beam, whose tree is what a trace shows.

    A beam is a sequence of merges, so a tree that can be built in several orders may be in several beams, as in the
    paper. With a beam of (n - 1)! the vector of n tokens is the expectation over all trees. A pair that stays in a beam
    is composed once: n tokens take about 2 n compositions a beam.

    :param beam: beams that are kept. With 1 the search is greedy, and the scores have no gradient.
    """

    @check_ranges
    def __init__(self, width: int, cell: Cell, beam: Count = 5) -> None:
        super().__init__(width, cell, beam)
        self.scorer = nn.Linear(width, 1, bias=False)  # a bias would cancel in the softmax

    def score(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor | None]:
        parents = self.cell(left, right)
        return self.scorer(self.cell.readout(parents)).squeeze(-1), parents
