"""Gumbel-Tree (Choi et al., 2018): one composition a step, chosen by straight-through Gumbel-softmax.

With nodes r_1 ... r_m, their parents p_i = cell(r_i, r_{i+1}) and a choice s of one of these, a step gives m - 1 nodes

    (1 - s_1 - ... - s_i) r_i + s_i p_i + (s_1 + ... + s_{i-1}) r_{i+1}

In training s is sampled and has the gradient of the softmax, so that every node depends on it and all parents are
composed anew in each step. In evaluation s is the highest score, and only parents of a new node are composed: 3n - 5
compositions of n tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crvnn_core import Cell, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import Positive, check_ranges
from crvnn_core.precision import at_least_float32


class GumbelTree(Encoder):
    """Composes one pair of neighbours a step, the one whose parent v has the highest score q . v / sqrt(width).

    With the cell ``lstm`` it is the Gumbel-Tree LSTM (Choi et al., 2018). In training pairs are sampled with
    straight-through Gumbel-softmax.

    :param temperature: of the softmax in training.
    """

    live_settings = ()

    @check_ranges
    def __init__(self, width: int, cell: Cell, temperature: Positive = 1.0) -> None:
        super().__init__(width)
        self.cell, self.temperature = cell, temperature
        self.query = nn.Parameter(0.01 * torch.randn(width))  # at first all trees are about equally likely

    def step_limit(self, length: int) -> int:
        return length - 1

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        # Longest first, so that in every step the sequences with more than one node are the first rows.
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        active = [sum(length > step for length in lengths) for step in range(1, max(lengths))]
        rows = torch.tensor(order, device=inputs.device)
        leaves = self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(-1), 0)).to(inputs.dtype)
        roots, choices = self._compose(leaves[rows, : max(lengths)], mask[rows, : max(lengths)], active)
        roots = roots[rows.argsort()]
        return Encoding(
            self.cell.readout(roots),
            roots.new_zeros(len(roots)),
            mask.sum(1) - 1,
            joins=_joins(choices, order, lengths) if trace else None,
        )

    def _compose(self, nodes: Tensor, mask: Tensor, active: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """The roots [B, s], and which node each step joined with its right neighbour, in the rows that are active."""
        done: list[Tensor] = []
        choices: list[Tensor] = []
        parents: Tensor | None = None
        for rows in active:
            done.append(nodes[rows:, 0])
            nodes, mask = nodes[:rows], mask[:rows, 1:]  # [B, m, s], and the mask of neighbours [B, m - 1]
            if parents is None or self.training:
                parents = self.cell(nodes[:, :-1], nodes[:, 1:]).to(nodes.dtype)
            else:
                parents = self._updated(parents[:rows], nodes, choices[-1][:rows])
            choice, chosen = self._choose(self._scores(parents).masked_fill(~mask, -torch.inf))
            choices.append(choice)
            chosen = chosen.to(nodes.dtype).unsqueeze(-1)
            so_far = chosen.cumsum(1)
            nodes = (1 - so_far) * nodes[:, :-1] + chosen * parents + (so_far - chosen) * nodes[:, 1:]
        return torch.cat([nodes[:, 0], *reversed(done)]), choices

    def _scores(self, parents: Tensor) -> Tensor:
        """The scores [B, m] of parents [B, m, s]."""
        vectors = at_least_float32(self.cell.readout(parents))
        scores: Tensor = (vectors * self.query).sum(-1) / self.width**0.5
        return scores

    def _choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Which pair to compose: its number [B], and 1 there and 0 elsewhere [B, m]; sampled in training."""
        if self.training:
            scores = scores + gumbel_noise(scores)
        choice = scores.argmax(1)
        hard = torch.zeros_like(scores).scatter(1, choice.unsqueeze(1), 1.0)
        if not self.training:
            return choice, hard
        soft = (scores / self.temperature).softmax(1)
        return choice, hard + (soft - soft.detach())  # straight-through

    def _updated(self, parents: Tensor, nodes: Tensor, choice: Tensor) -> Tensor:
        """The parents [B, m - 1, s] of nodes [B, m, s], from those before ``choice`` became one of the nodes."""
        place = torch.arange(nodes.shape[1] - 1, device=nodes.device).view(1, -1, 1)
        made = choice.view(-1, 1, 1)
        updated = torch.where(place < made, parents[:, :-1], parents[:, 1:])
        # The new node with its left and with its right neighbour; at an end of the sequence, twice the same.
        pairs = torch.cat([made - 1, made], 1).clamp(0, nodes.shape[1] - 2)  # [B, 2, 1]
        index = pairs.expand(-1, -1, nodes.shape[2])
        fresh = self.cell(nodes.gather(1, index), nodes.gather(1, index + 1)).to(nodes.dtype)
        for side in (0, 1):
            updated = torch.where(place == pairs[:, side : side + 1], fresh[:, side : side + 1], updated)
        return updated


def gumbel_noise(like: Tensor) -> Tensor:
    """Samples of the standard Gumbel distribution, of the shape and on the device of ``like``."""
    return -torch.empty_like(like).exponential_().log()


def _joins(choices: Sequence[Tensor], order: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """For each sequence the positions that join their right neighbours; rows of ``choices`` are in ``order``."""
    chosen = [choice.tolist() for choice in choices]
    joins: list[list[int]] = [[] for _ in lengths]
    for row, sequence in enumerate(order):
        ends = list(range(lengths[sequence]))  # of the nodes that there are
        joins[sequence] = [ends.pop(step[row]) for step in chosen[: lengths[sequence] - 1]]
    return joins
