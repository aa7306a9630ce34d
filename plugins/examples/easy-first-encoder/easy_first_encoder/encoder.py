"""The encoder itself."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from crvnn_core import Cell, Encoder, Encoding, Range, Trace, check_ranges, checked_lengths


class EasyFirst(Encoder):
    """Merges one neighbouring pair of nodes a step: that whose parent scores best, as in Choi et al. (2018).

    Softly, every pair is merged in proportion to its softmax weight; with hard inference, the best pair alone.

    :param temperature: by which scores are divided before the softmax.
    """

    hard_inference = True
    live_settings = ("temperature",)

    @check_ranges
    def __init__(self, width: int, cell: Cell, temperature: Annotated[float, Range(gt=0)] = 1.0) -> None:
        super().__init__(width)
        self.cell, self.temperature = cell, temperature
        self.score = nn.Linear(width, 1, bias=False)  # a bias would change no choice

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        longest = max(checked_lengths(inputs, mask, self.width))  # refuses what cannot be encoded
        inputs, mask = inputs[:, :longest], mask[:, :longest]
        nodes = self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(-1), 0)).to(inputs.dtype)  # [B, m, s]
        # [B, m, n]: the probability that a node's span ends at a token
        ends = torch.eye(longest, dtype=nodes.dtype, device=nodes.device).expand(len(nodes), -1, -1)
        tokens = mask.sum(1, keepdim=True)  # [B, 1]
        history = [mask.to(nodes.dtype)]  # e before the first step, and after each
        for step in range(longest - 1):
            remaining = tokens - step  # nodes of each sequence; at most 1 if it is done
            parents = self.cell(nodes[:, :-1], nodes[:, 1:]).to(nodes.dtype)
            choice = self._choice(parents, remaining, hard).unsqueeze(-1)  # [B, m - 1, 1]
            reached = choice.cumsum(1).clamp(
                max=1
            )  # the probability that this pair, or one before it, is merged
            merged = (1 - reached) * nodes[:, :-1] + choice * parents + (reached - choice) * nodes[:, 1:]
            going = (remaining > 1).unsqueeze(-1)
            nodes = torch.where(going, merged, nodes[:, :-1])
            ends = torch.where(going, torch.lerp(ends[:, :-1], ends[:, 1:], reached), ends[:, :-1])
            if trace:
                present = torch.arange(ends.shape[1], device=ends.device) < (remaining - 1).clamp(min=1)
                history.append((ends * present.unsqueeze(-1)).sum(1).clamp(max=1).detach())
        steps = tokens.squeeze(1) - 1
        vector = self.cell.readout(nodes[:, 0])
        seen = _trace(torch.stack(history), mask, steps) if trace else None
        return Encoding(vector, vector.new_zeros(len(vector)), steps, seen)

    def _choice(self, parents: Tensor, remaining: Tensor, hard: bool) -> Tensor:
        """The weight of each pair, from the parents [B, m - 1, s] -> [B, m - 1]."""
        scores = self.score(self.cell.readout(parents)).squeeze(-1).to(parents.dtype)
        pair = torch.arange(scores.shape[1], device=scores.device)
        scores = scores.masked_fill(pair >= (remaining - 1).clamp(min=1), -torch.inf)
        if hard:
            return one_hot(scores.argmax(1), scores.shape[1]).to(scores.dtype)
        return torch.softmax(scores / self.temperature, 1)

    def neighbours(self, exists: Tensor, *, hard: bool = False) -> tuple[Tensor, Tensor]:
        return _next(exists.flip(0)).flip(0, 1), _next(exists)

    def step_limit(self, length: int) -> int:
        return length - 1


def _next(exists: Tensor) -> Tensor:
    """[n, n]: the probability that j is the first token after i that exists."""
    later = torch.ones(len(exists), len(exists), dtype=torch.bool, device=exists.device).triu(1)
    missing = torch.where(later, 1 - exists, 1).cumprod(1)  # no token after i, up to j, exists
    return exists * missing.roll(1, 1).triu(1)


def _trace(exists: Tensor, mask: Tensor, steps: Tensor) -> Trace:
    """The trace, from the existence e of tokens [K + 1, B, n]: c is the part of e that a step took away."""
    before, after = exists[:-1], exists[1:]
    compose = torch.where(before > 0, 1 - after / before, 0).clamp(min=0)
    return Trace(compose, exists, mask, steps)
