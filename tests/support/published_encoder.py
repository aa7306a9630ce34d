"""The authors' published classifier encoder, retold for one sequence at a time with n x n matrices.

Written from what their code computes, guards and parameter names included; none of it is theirs. It is the slow twin of
the ``reference`` preset. Their code takes the maximum of a whole batch, padding included; here it is that of the
sequence, which is the same for a sequence alone.
"""

import math

import torch
from torch import nn

EPS = 1e-8


def neighbours(exists):
    """Two matrices from e [n]: row i holds the weights of i's neighbours to the left, and to the right."""

    def to_right(e):
        seen = e.expand(len(e), -1).triu(1)
        running = seen.cumsum(1)
        before = torch.cat([e.new_ones(len(e), 1), 1 - running[:, :-1]], 1)
        return torch.where(running > 1, torch.maximum(torch.zeros_like(before), before), seen)

    return to_right(exists.flip(0)).flip(0, 1), to_right(exists)


def composition(scores, to_left, to_right, may_compose):
    """c [n]: each of four terms has EPS added, after the highest score of all positions, or 0, was subtracted."""
    top = torch.cat([scores, scores.new_zeros(1)]).max()
    strength = torch.exp(scores - top) * may_compose
    rivals = [strength, torch.exp(-top).expand_as(strength), to_left @ strength, to_right @ strength]
    return strength / sum(rival + EPS for rival in rivals) * may_compose


class PublishedEncoder(nn.Module):
    def __init__(self, width, hidden, transition=64, window=5, exact_gelu=False):
        super().__init__()
        self.window, self.exact_gelu = window, exact_gelu
        self.START, self.END = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))
        self.past_transition_features = nn.Parameter(torch.randn(transition))
        self.past_non_transition_features = nn.Parameter(torch.randn(transition))
        self.conv_layer = nn.Linear(window * width + transition, width)
        self.scorer = nn.Linear(width, 1)
        self.initial_transform_layer = nn.Linear(width, width)
        self.wcell1, self.wcell2 = nn.Linear(2 * width, hidden), nn.Linear(hidden, 4 * width)
        self.LN = nn.LayerNorm(width)

    def gelu(self, x):
        if self.exact_gelu:
            return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def compose(self, left, right):
        contents = self.wcell2(self.gelu(self.wcell1(torch.cat([left, right], 1))))
        keep_left, keep_right, take, new = contents.chunk(4, 1)
        return self.LN(keep_left.sigmoid() * left + keep_right.sigmoid() * right + take.sigmoid() * new)

    def forward(self, tokens, longest=0):
        """tokens [n, width] -> the sentence vector, the penalty before its weight, the steps taken.

        :param longest: the tokens of the longest sequence in its batch. Their loop runs for as many steps, and
            freezes a sequence after n + 1.
        """
        n = len(tokens)
        r = self.LN(self.initial_transform_layer(torch.stack([self.START, *tokens, self.END])))
        may_compose, may_receive, gained = (tokens.new_zeros(n + 2) for _ in range(3))
        may_compose[1:n] = 1
        may_receive[1 : n + 1] = 1
        exists, proper = tokens.new_ones(n + 2), False
        for step in range(1, (n + 1 if longest > n else n) + 1):  # noqa: B007 - it is returned
            to_left, to_right = neighbours(exists)
            lefts, rights = [r], [r]
            for _ in range(self.window // 2):
                lefts.append(to_left @ lefts[-1])
                rights.append(to_right @ rights[-1])
            past = torch.outer(gained, self.past_transition_features)
            past = past + torch.outer(1 - gained, self.past_non_transition_features)
            window = torch.cat([*lefts[:0:-1], r, *rights[1:], past], 1)
            scores = self.scorer(self.gelu(self.conv_layer(window))).squeeze(1)
            c = composition(scores, to_left, to_right, may_compose)
            gained = (to_left @ c) * may_receive
            parent = self.compose(to_left @ r, r)
            r = gained[:, None] * parent + (1 - gained[:, None]) * r
            exists = exists * (1 - c)
            above = exists[1 : n + 1] > 0.01
            if above.sum() <= 1:
                proper = bool(above[-1])
                break
        real = exists[1 : n + 1]
        penalty = real.new_zeros(()) if proper else -torch.log(real[-1] / (real + EPS).sum() + EPS)
        return r[n], penalty, step
