"""RL-SPINN: a shift-reduce parser that learns its actions by reinforcement, without gold trees.

The stack is a thin stack: every step pushes one node, which is appended to a store, and a table has the step in which
the node below it was pushed. So the top is the node of the last step, and a step reads one more, the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import Cell, CrvnnError, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import CountOrZero, Weight, check_ranges
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.precision import at_least_float32
from crvnn_parts.encoders.reinforced.node_store import NodeStore
from crvnn_parts.encoders.reinforced.running_cost import RunningCost


@frozen(eq=False)
class Parse:
    """What the actions of a batch give."""

    root: Tensor  # [B, s]
    log_probability: Tensor  # [B], of the actions
    entropy: Tensor  # [B], mean over the actions that were not forced
    joins: Tensor  # [2 n - 1, B]: the last token of the left child of a reduction; -1 in other steps


class RLSPINN(Encoder):
    """RL-SPINN (Yogatama et al., 2017): a tracking LSTM chooses to shift or to reduce, and learns by REINFORCE.

    It reads the top two nodes of the stack and the next token. Shifting pushes the next token, reducing replaces the
    top two nodes by their parent, so n tokens take 2 n - 1 actions. They are sampled in training; in evaluation the
    more likely one is taken. The paper's cell is ``lstm``, the Tree-LSTM.

    :param tracker_width: of the tracking LSTM; 0 for the model's width.
    :param baseline: of the cost in training: its running mean, or the cost along the greedy actions.
    :param entropy: weight of a bonus on the entropy of actions.
    """

    live_settings = ()

    @check_ranges
    def __init__(
        self,
        width: int,
        cell: Cell,
        tracker_width: CountOrZero = 0,
        baseline: Literal["mean", "greedy"] = "mean",
        entropy: Weight = 0.0,
    ) -> None:
        super().__init__(width)
        self.cell, self.baseline, self.entropy = cell, baseline, entropy
        self.tracker = nn.LSTMCell(3 * width, tracker_width or width)
        self.score = nn.Linear(tracker_width or width, 1)
        self.costs = RunningCost()

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        inputs, mask = inputs[:, : max(lengths)], mask[:, : max(lengths)]
        parse = self.parse(inputs, mask, _sampled if self.training else _greedy)
        vector = self.cell.readout(parse.root)
        encoding = Encoding(vector, torch.zeros_like(parse.log_probability), 2 * mask.sum(1) - 1)
        if self.training:
            encoding.penalty = -self.entropy * parse.entropy
            encoding.log_probability = parse.log_probability
            if self.baseline == "greedy":
                greedy = evaluating(self)
                with torch.no_grad():
                    encoding.baseline = greedy.cell.readout(greedy.parse(inputs, mask, _greedy).root)
        if trace:
            encoding.joins = [[join for join in row if join >= 0] for row in parse.joins.t().tolist()]
        return encoding

    def parse(self, inputs: Tensor, mask: Tensor, choose: Callable[[Tensor], Tensor]) -> Parse:
        """Take all actions.

        :param choose: from the log-odds [B] of reducing to whether to reduce [B], where both actions are possible.
        """
        size, n = mask.shape
        rows, lengths = torch.arange(size, device=mask.device), mask.sum(1)
        outside = ~F.pad(mask, (0, 1)).unsqueeze(-1)  # one more place after the last token
        tokens = F.pad(inputs, (0, 0, 0, 1)).masked_fill(outside, 0)
        leaves = self.cell.leaf(tokens).to(inputs.dtype).masked_fill(outside, 0)
        queue, nodes = NodeStore(size * (n + 1), leaves), NodeStore(size * 2 * n, leaves)
        queue.append(leaves.flatten(0, 1))
        top = leaves.new_zeros(size, leaves.shape[-1])
        nodes.append(top)  # step 0: the node below all others, which stands for none
        below, first = (torch.zeros(2 * n, size, dtype=torch.long, device=mask.device) for _ in range(2))
        position = torch.zeros_like(rows)  # of the next token
        memory: tuple[Tensor, Tensor] | None = None
        chances, entropies, choices, joins = [], [], [], []
        for step in range(1, 2 * n):
            second_step = below[step - 1]
            second = nodes.read(second_step * size + rows)
            leaf = queue.read(rows * (n + 1) + position)
            memory = self.tracker(self._seen(top, second, leaf), memory)
            score = at_least_float32(self.score(memory[0]).squeeze(-1))
            can_reduce, can_shift = second_step > 0, position < lengths
            free = can_reduce & can_shift
            reduce = torch.where(free, choose(score.detach()), can_reduce)
            chances.append(torch.where(free, F.logsigmoid(torch.where(reduce, score, -score)), 0))
            entropies.append(torch.where(free, _entropy(score), 0))
            choices.append(free)
            joins.append(torch.where(reduce & (step < 2 * lengths), first[step - 1] - 1, -1))
            first[step] = torch.where(reduce, first.gather(0, second_step.unsqueeze(0))[0], position)
            below[step] = torch.where(reduce, below.gather(0, second_step.unsqueeze(0))[0], step - 1)
            position = (position + ~reduce).clamp(max=n)
            top = torch.where(reduce.unsqueeze(-1), self.cell(second, top).to(leaf.dtype), leaf)
            nodes.append(top)
        return Parse(
            nodes.read((2 * lengths - 1) * size + rows),  # later steps of shorter sequences are discarded
            torch.stack(chances).sum(0),
            torch.stack(entropies).sum(0) / torch.stack(choices).sum(0).clamp(min=1),
            torch.stack(joins),
        )

    def _seen(self, *states: Tensor) -> Tensor:
        return torch.cat([self.cell.readout(state) for state in states], -1)

    def relative_cost(self, cost: Tensor, baseline: Tensor | None) -> Tensor:
        return self.costs.relative(cost, baseline)

    def step_limit(self, length: int) -> int:
        return 2 * length - 1

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        raise CrvnnError("its stack is made in Python from the length of each sequence")


def _sampled(score: Tensor) -> Tensor:
    return torch.rand_like(score) < torch.sigmoid(score)


def _greedy(score: Tensor) -> Tensor:
    return score > 0


def _entropy(score: Tensor) -> Tensor:
    """Of a choice with these log-odds."""
    return F.softplus(score) - score * torch.sigmoid(score)
