"""Cooperative learning of a parser and a composer (Havrylov et al., 2019).

The parser merges neighbours until one node is left, choosing the pair to merge at every step. A node stands at the
position of its last token. Only the two pairs of a new parent have to be composed and scored anew in a step, so n
tokens take less than 3 n compositions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's own documentation uses

from crvnn_core import Cell, CrvnnError, Encoder, Encoding, checked_lengths
from crvnn_core.annotations import CountOrZero, Weight, check_ranges
from crvnn_core.evaluation_mode import evaluating
from crvnn_core.precision import at_least_float32
from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.encoders.reinforced.node_store import NodeStore
from crvnn_parts.encoders.reinforced.running_cost import RunningCost

#: The score of pairs that there are not: their probability is exactly 0, and nothing is infinite.
_NEVER = -1e9


@frozen(eq=False)
class Merges:
    """The tree of each sequence, as the merges that build it. n is the place of a merge that is not one."""

    left: Tensor  # [n - 1, B]: the positions of the left and the right node; the parent is at the right one
    right: Tensor
    log_probability: Tensor  # [B]
    entropy: Tensor  # [B], mean over the merges

    def joins(self) -> list[list[int]]:
        """The positions of each sequence that join their right neighbours, in order."""
        n = len(self.left) + 1
        return [[place for place in row if place < n] for row in self.left.t().tolist()]


class MergeParser(nn.Module):
    """Chooses merges by the scores of the parents that they would make, with a Tree-LSTM of its own over an LSTM.

    :param inputs: width of the inputs.
    :param width: of the parser.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.cell = LSTMCell(width)
        self.score = nn.Linear(width, 1, bias=False)  # softmax is invariant to a bias common to all pairs

    def forward(self, inputs: Tensor, mask: Tensor, choose: Callable[[Tensor], Tensor]) -> Merges:
        """Choose all merges of inputs [B, n, d] that are 0 at padding.

        :param choose: from the log-probabilities of merging [B, n] to the position of the left node to merge [B].
        """
        size, n = mask.shape
        leaves = self.cell.leaf(self.lstm(self.embed(inputs))[0]).to(inputs.dtype)
        parents = self.cell(leaves[:, :-1], leaves[:, 1:]).to(inputs.dtype)  # [B, n - 1, s]
        nodes = NodeStore(size * (4 * n - 3), leaves)
        nodes.append(leaves.flatten(0, 1))
        nodes.append(parents.flatten(0, 1))
        # Of each position, and of one more that stands for none: its node, the parent of it and its right neighbour,
        # and the positions of both neighbours.
        row, place = (
            torch.arange(size, device=mask.device).unsqueeze(1),
            torch.arange(n + 1, device=mask.device),
        )
        node = (row * n + place).where(place < n, 0)
        parent = (size * n + row * (n - 1) + place).where(place < n - 1, 0)
        before = (place - 1).where(place > 0, n).where(place < n, n).repeat(size, 1)
        after = (place + 1).where(F.pad(mask[:, 1:], (0, 2)), n)
        scores = F.pad(self._scores(parents, mask[:, 1:]), (0, 2), value=_NEVER)  # [B, n + 1]
        lengths, lefts, rights, chances, entropies = mask.sum(1), [], [], [], []
        for step in range(n - 1):
            goes_on = step < lengths - 1
            log_chances = torch.log_softmax(scores[:, :n], 1)
            chosen = choose(log_chances.detach()).unsqueeze(1)
            chances.append(torch.where(goes_on, log_chances.gather(1, chosen).squeeze(1), 0))
            entropies.append(torch.where(goes_on, -(log_chances.exp() * log_chances).sum(1), 0))
            left = chosen.where(goes_on.unsqueeze(1), n)
            right = after.gather(1, left).where(goes_on.unsqueeze(1), n)
            outer_left, outer_right = before.gather(1, left), after.gather(1, right)
            node.scatter_(1, right, parent.gather(1, left))
            before.scatter_(1, right, outer_left)
            after.scatter_(1, outer_left, right)
            near = nodes.read(node.gather(1, torch.cat([outer_left, right, outer_right], 1)))  # [B, 3, s]
            both = self.cell(near[:, :-1], near[:, 1:]).to(inputs.dtype)  # [B, 2, s]
            there = torch.cat([outer_left, outer_right], 1) < n
            changed = torch.cat([outer_left, right, left], 1)
            scores = scores.scatter(1, changed, F.pad(self._scores(both, there), (0, 1), value=_NEVER))
            parent.scatter_(1, changed[:, :2], nodes.filled + 2 * row + place[:2])
            nodes.append(both.flatten(0, 1))
            lefts.append(left.squeeze(1))
            rights.append(right.squeeze(1))
        return Merges(
            _stacked(lefts, lengths),
            _stacked(rights, lengths),
            _stacked(chances, scores[:, 0]).sum(0),
            _stacked(entropies, scores[:, 0]).sum(0) / (lengths - 1).clamp(min=1),
        )

    def _scores(self, parents: Tensor, there: Tensor) -> Tensor:
        """The scores [B, m] of parents [B, m, s], where there is such a pair."""
        scores = at_least_float32(self.score(self.cell.readout(parents)).squeeze(-1))
        return scores.where(there, _NEVER)


def _stacked(steps: list[Tensor], like: Tensor) -> Tensor:
    """Tensors [B] of each step as [steps, B], also of none."""
    return torch.stack(steps) if steps else like.new_zeros(0, len(like))


def compose(cell: Cell, inputs: Tensor, mask: Tensor, merges: Merges) -> Tensor:
    """The roots [B, s] of composing inputs [B, n, d] with a cell as these merges say."""
    size, n = mask.shape
    leaves = cell.leaf(inputs).to(inputs.dtype)
    nodes = NodeStore(size * (2 * n - 1), leaves)
    nodes.append(leaves.flatten(0, 1))
    row, place = torch.arange(size, device=mask.device).unsqueeze(1), torch.arange(n + 1, device=mask.device)
    node = (row * n + place).where(place < n, 0)  # of each position, and of one more that stands for none
    for left, right in zip(merges.left.unsqueeze(-1), merges.right.unsqueeze(-1), strict=True):
        one, two = nodes.read(node.gather(1, torch.cat([left, right], 1))).unbind(1)
        node.scatter_(1, right, nodes.filled + row)
        nodes.append(cell(one, two).to(leaves.dtype))
    return nodes.read(node.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1))


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
