"""Cooperative learning of a parser and a composer (Havrylov et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell, CrvnnError, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import CountOrZero, Weight, check_ranges
from crvnn_core.evaluation_mode import evaluating
from crvnn_parts.encoders.reinforced.merge_parser import MergeParser, Merges, compose
from crvnn_parts.encoders.reinforced.running_cost import RunningCost


class Cooperative(Encoder):
    """Cooperative latent trees (Havrylov et al., 2019): a parser samples the tree along which the cell composes.

    The cell learns by cross-entropy, the parser by reinforcement: its cost is the cross-entropy relative to that of its
    greedy tree, divided by the running standard deviation where this is above 1. In evaluation the tree is the greedy
    one. The paper's cell is ``lstm``, the Tree-LSTM.

    The parser's own embedding is an affine map of the token vectors, through which no gradient reaches them: as in the
    paper, the reward changes the parser only. The paper updates the parser 15 times a batch by PPO; here it is updated
    once, with everything else. Then the ratio of new to old probabilities in PPO's objective is 1, nothing is clipped,
    and its gradient is that of REINFORCE.

    :param parser_width: of the parser; 0 for the model's width.
    :param entropy: weight of a bonus on the entropy of the parser's choices, averaged over its steps.
    """

    live_settings = ()

    @check_ranges
    def __init__(self, width: int, cell: Cell, parser_width: CountOrZero = 0, entropy: Weight = 1e-4) -> None:
        super().__init__(width)
        self.cell, self.entropy = cell, entropy
        self.parser = MergeParser(width, parser_width or width)
        self.costs = RunningCost()

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        mask = mask[:, : max(lengths)]
        inputs = inputs[:, : max(lengths)].masked_fill(~mask.unsqueeze(-1), 0)
        merges = self.parser(inputs.detach(), mask, _sampled if self.training else _greedy)
        vector = self._composed(inputs, mask, merges)
        encoding = Encoding(vector, torch.zeros_like(merges.log_probability), mask.sum(1) - 1)
        if self.training:
            encoding.penalty = -self.entropy * merges.entropy
            encoding.log_probability = merges.log_probability
            greedy = evaluating(self)
            with torch.no_grad():
                encoding.baseline = greedy._composed(inputs, mask, greedy.parser(inputs, mask, _greedy))
        if trace:
            encoding.joins = merges.joins()
        return encoding

    def _composed(self, inputs: Tensor, mask: Tensor, merges: Merges) -> Tensor:
        return self.cell.readout(compose(self.cell, inputs, mask, merges))

    def relative_cost(self, cost: Tensor, baseline: Tensor | None) -> Tensor:
        scale = self.costs.deviation().clamp(min=1)  # of earlier batches: no example weighs itself
        return self.costs.relative(cost, baseline) / scale

    def step_limit(self, length: int) -> int:
        return length - 1

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        raise CrvnnError("its tree is made in Python from the length of each sequence")


def _sampled(log_chances: Tensor) -> Tensor:
    noise = torch.empty_like(log_chances).exponential_().log()  # minus Gumbel noise
    return (log_chances - noise).argmax(1)


def _greedy(log_chances: Tensor) -> Tensor:
    return log_chances.argmax(1)
