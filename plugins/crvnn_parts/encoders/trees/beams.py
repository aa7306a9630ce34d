"""Beam search over merges of neighbours: the encoders ``beam-tree`` and ``efficient-beam-tree``.

Shapes: B sequences, K beams, S nodes left in a beam, s numbers in a node. In every step one pair of neighbours merges
in each beam. Pairs keep their scores, and only the two pairs of the new node are scored: for n tokens O(K n) scores and
compositions, where scoring every pair in every step takes O(K n^2).

A beam is a sequence of merges. A tree that can be built in several orders is several of them. With a beam that holds
all (n - 1)! sequences the vector is therefore the expectation of the root, the probability of a tree being the sum
over its orders. A smaller beam may hold one tree several times, as in the papers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, log_softmax

from crvnn_core import Cell, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Count, CountOrZero, check_ranges
from crvnn_core.precision import at_least_float32


@dataclass(eq=False)
class _Beams:
    """The most likely merges so far of sequences in the order of their lengths, the longest first."""

    nodes: Tensor  # [B, K, S, s]
    ends: Tensor  # [B, K, S], the last token of each node
    scores: Tensor  # [B, K], log-probabilities of the merges; -inf where a sequence has fewer beams
    joins: Tensor  # [B, K, steps], the last token of each left node that has merged

    def rows(self, begin: int, end: int) -> _Beams:
        """The beams of some of the sequences."""
        parts = (self.nodes, self.ends, self.scores, self.joins)
        return _Beams(*(part[begin:end] for part in parts))

    def best_joins(self) -> list[list[int]]:
        """The joins of the most likely beam of each sequence."""
        best = self.scores.argmax(1)
        found: list[list[int]] = self.joins[torch.arange(len(best), device=best.device), best].tolist()
        return found


@dataclass(eq=False)
class _Pairs:
    """The pairs of neighbours in each beam."""

    logits: Tensor  # [B, K, S - 1]
    parents: Tensor | None  # [B, K, S - 1, s], where scores are made from parents


@dataclass(eq=False)
class _Merges:
    """Which beams are continued by which merge."""

    beam: Tensor  # [B, K]
    pair: Tensor  # [B, K], the place of its left node
    scores: Tensor  # [B, K]


class BeamEncoder(Encoder):
    """Keeps the most likely sequences of merges; the vector is the mean of their roots, weighted by probability."""

    hard_inference = True
    live_settings = ("beam",)
    #: Whether merges are selected with Gumbel noise in training. The log-probabilities that accumulate have none.
    noisy_selection: bool = False

    def __init__(self, width: int, cell: Cell, beam: int) -> None:
        super().__init__(width)
        self.cell, self.beam = cell, beam

    @abstractmethod
    def score(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor | None]:
        """Scores [...] of pairs of nodes [..., s], and the parents [..., s] if scores are made from them."""

    def step_limit(self, length: int) -> int:
        return length - 1

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        n, sizes = max(lengths), mask.sum(1)
        # The longest first: sequences with merges to come are always the first ones of the batch.
        by_length = torch.tensor(
            sorted(range(len(lengths)), key=lambda row: -lengths[row]), device=mask.device
        )
        beams = self._leaves(inputs[by_length, :n], mask[by_length, :n])
        nodes_left = sizes[by_length].view(-1, 1, 1)
        finished: list[_Beams] = []
        pairs: _Pairs | None = None
        merges: _Merges | None = None
        for step in range(n):
            active = sum(length > step + 1 for length in lengths)
            if active < len(beams.nodes):
                finished.insert(0, beams.rows(active, len(beams.nodes)))
                beams = beams.rows(0, active)
            if active:
                pairs = self._pairs(beams, pairs, merges)
                merges = self._select(beams, pairs, nodes_left[:active] - step)
                beams = self._merged(beams, pairs, merges)
        place = by_length.argsort()
        vector = torch.cat([self._vectors(each, hard) for each in finished])[place].to(inputs.dtype)
        encoding = Encoding(vector, vector.new_zeros(len(vector)), sizes - 1)
        if trace:
            joins = [found for each in finished for found in each.best_joins()]
            encoding.joins = [joins[row] for row in place.tolist()]
        return encoding

    def _leaves(self, inputs: Tensor, mask: Tensor) -> _Beams:
        """One beam for each sequence, in which nothing has merged yet."""
        size, n, _ = inputs.shape
        nodes = self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(2), 0)).to(inputs.dtype)
        ends = torch.arange(n, device=inputs.device).expand(size, 1, n)
        scores = at_least_float32(inputs.new_zeros(size, 1))
        return _Beams(nodes.unsqueeze(1), ends, scores, ends[:, :, :0])

    def _pairs(self, beams: _Beams, before: _Pairs | None, merges: _Merges | None) -> _Pairs:
        """The pairs in each beam; after a merge, only the two of the new node are scored."""
        if before is None or merges is None:
            logits, parents = self.score(beams.nodes[:, :, :-1], beams.nodes[:, :, 1:])
            return _Pairs(at_least_float32(logits), parents)
        active, width, size, _ = beams.nodes.shape
        beam, pair = merges.beam[:active], merges.pair[:active].unsqueeze(2)
        # At either end of a beam the new node has one neighbour: what is scored in place of the other is not used.
        near = torch.cat([pair - 1, pair, pair + 1], 2).clamp(0, size - 1)
        new_node = _picked(beams.nodes, torch.arange(width, device=pair.device).expand(active, width), near)
        logits, parents = self.score(new_node[:, :, :2], new_node[:, :, 1:])
        # Where each of the S - 1 pairs was among the S of before, behind which the two new ones stand.
        place = torch.arange(size - 1, device=pair.device)
        place = place + (place > pair) + (size + 1 - pair) * ((place == pair - 1) | (place == pair))
        return _Pairs(
            _picked(before.logits[:active], beam, place, at_least_float32(logits)),
            None
            if before.parents is None or parents is None
            else _picked(before.parents[:active], beam, place, parents.to(before.parents.dtype)),
        )

    def _select(self, beams: _Beams, pairs: _Pairs, nodes_left: Tensor) -> _Merges:
        """The most likely continuations of all beams: the best of each beam, and the best of those."""
        count = pairs.logits.shape[2]
        there = torch.arange(count, device=nodes_left.device) < nodes_left - 1
        log_p = log_softmax(pairs.logits.masked_fill(~there, -torch.inf), 2)  # [B, K, S - 1]
        pair = self._top(log_p)
        totals = (beams.scores.unsqueeze(2) + log_p.gather(2, pair)).flatten(1)
        chosen = self._top(totals)
        beam = chosen.div(pair.shape[2], rounding_mode="floor")
        return _Merges(beam, pair.flatten(1).gather(1, chosen), totals.gather(1, chosen))

    def _top(self, scores: Tensor) -> Tensor:
        """The places of the ``beam`` highest scores along the last dimension, the highest first."""
        scores = scores.detach()
        if self.noisy_selection and self.training:
            scores = scores - torch.empty_like(scores).exponential_().log()  # Gumbel noise
        return scores.topk(min(self.beam, scores.shape[-1])).indices

    def _merged(self, beams: _Beams, pairs: _Pairs, merges: _Merges) -> _Beams:
        """The beams after one merge each."""
        beam, pair, size = merges.beam, merges.pair.unsqueeze(2), beams.nodes.shape[2]
        if pairs.parents is None:
            left, right = (_picked(beams.nodes, beam, at) for at in (pair, pair + 1))
            parent = self.cell(left, right).to(left.dtype)  # [B, K, 1, s]
        else:
            parent = _picked(pairs.parents, beam, pair).to(beams.nodes.dtype)
        place = torch.arange(size - 1, device=pair.device)
        kept = place + (place >= pair)  # all but the left node of the pair
        return _Beams(
            _picked(beams.nodes, beam, torch.where(place == pair, size, kept), parent),
            _picked(beams.ends, beam, kept),
            merges.scores,
            torch.cat([_picked_steps(beams.joins, beam), _picked(beams.ends, beam, pair)], 2),
        )

    def _vectors(self, beams: _Beams, hard: bool) -> Tensor:
        """The vectors [B, d] of sequences with one node left in each beam."""
        roots = at_least_float32(self.cell.readout(beams.nodes[:, :, 0]))
        weights = beams.scores.softmax(1)
        if hard:
            weights = torch.nn.functional.one_hot(weights.argmax(1), weights.shape[1]).to(roots.dtype)
        return (weights.unsqueeze(2) * roots).sum(1)


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


def _picked(values: Tensor, beam: Tensor, place: Tensor, fresh: Tensor | None = None) -> Tensor:
    """Values [B, K, P, ...] of the beams [B, K'] at the places [B, K', P'].

    :param fresh: values [B, K', F, ...] of the new beams, which the places P, P + 1, ... stand for.
    """
    size, width, count = values.shape[:3]
    first = torch.arange(size, device=beam.device).unsqueeze(1) * width + beam
    index, table = first.unsqueeze(2) * count + place, values.flatten(0, 2)
    if fresh is not None:
        own = torch.arange(beam.numel(), device=beam.device).view(*beam.shape, 1) * fresh.shape[2]
        index = torch.where(place < count, index, len(table) + own + place - count)
        table = torch.cat([table, fresh.flatten(0, 2)])
    # On CPUs the backward pass of index_select is 20 times slower than that of an embedding.
    return embedding(index, table) if table.dim() == 2 else table[index]


def _picked_steps(joins: Tensor, beam: Tensor) -> Tensor:
    """The joins [B, K', steps] of the beams [B, K']."""
    return joins.gather(1, beam.unsqueeze(2).expand(-1, -1, joins.shape[2]))
