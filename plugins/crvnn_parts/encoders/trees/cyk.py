"""The differentiable CYK chart."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, one_hot
from torch.utils.checkpoint import checkpoint as checkpointed

from crvnn_core import Cell, Encoder, Encoding, InputError, checked_lengths
from crvnn_core.annotations import CountOrZero, Positive, check_ranges
from crvnn_core.interfaces import Scheduled
from crvnn_core.precision import at_least_float32


class CYK(Encoder, Scheduled):
    """A chart of all spans, each the mean of the parents of its splits (Maillard, Clark and Yogatama, 2019).

    The paper is "Jointly learning sentence embeddings and syntax with unsupervised Tree-LSTMs". Parents are weighted
    by the softmax of their scores over a temperature, which goes exponentially from ``start_temperature`` to
    ``end_temperature`` in training. n tokens take (n^3 - n) / 6 compositions, so it is for short sequences; all spans
    of one length are composed together. Hard inference takes the parent of the best split in place of the mean. A
    trace shows the tree of the best splits, from the root down.

    :param score: ``cosine`` similarity of a parent and a trained vector, as in the paper; or ``linear``, their product.
    :param start_temperature: at the beginning of training.
    :param end_temperature: at the end of training, and afterwards.
    :param max_tokens: longer sequences are refused, since they take long; 0 for no limit.
    :param checkpoint: activation checkpointing: keep the chart, and recompute parents in the backward pass. Memory then
        grows with the square of the length, not with its cube.
    """

    hard_inference = True
    live_settings = ("end_temperature", "max_tokens")

    @check_ranges
    def __init__(
        self,
        width: int,
        cell: Cell,
        score: Literal["cosine", "linear"] = "cosine",
        start_temperature: Positive = 1.0,
        end_temperature: Positive = 0.5,
        max_tokens: CountOrZero = 200,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(width)
        self.cell, self.score, self.max_tokens, self.checkpoint = cell, score, max_tokens, checkpoint
        self.start_temperature, self.end_temperature = start_temperature, end_temperature
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.add_progress()

    @property
    def temperature(self) -> Tensor:
        """The temperature at the present point of training."""
        ratio = self.end_temperature / self.start_temperature
        return self.start_temperature * torch.exp(math.log(ratio) * self.progress)

    def step_limit(self, length: int) -> int:
        return length - 1

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        self._check_limit(lengths)
        # The longest first: sequences with spans of a length are always the first ones of the batch.
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        by_length = torch.tensor(order, device=mask.device)
        n = max(lengths)
        tokens = inputs.masked_fill(~mask.unsqueeze(2), 0)[by_length, :n]
        # By span length k = 1, 2, ...: nodes [B, n - k + 1, s] of sequences with as many tokens.
        chart = [self.cell.leaf(tokens).to(inputs.dtype)]
        splits: list[Tensor] = []
        roots: list[Tensor] = []
        for length in range(1, n + 1):
            longer = sum(each > length for each in lengths)
            roots.insert(0, chart[-1][longer:, 0])
            if longer:
                nodes, best = self._spans(hard, *(nodes[:longer] for nodes in chart))
                chart.append(nodes)
                splits.append(best)
        vector = self.cell.readout(torch.cat(roots)[by_length.argsort()])
        encoding = Encoding(vector, vector.new_zeros(len(vector)), mask.sum(1) - 1)
        if trace:
            found = [best.tolist() for best in splits]
            joins = [_joins([best[row] for best in found[: lengths[at] - 1]]) for row, at in enumerate(order)]
            encoding.joins = [joins[row] for row in by_length.argsort().tolist()]
        return encoding

    def _check_limit(self, lengths: list[int]) -> None:
        row = max(range(len(lengths)), key=lengths.__getitem__)
        if 0 < self.max_tokens < lengths[row]:
            raise InputError(
                f"sequence {row} of the batch has {lengths[row]} tokens, and the encoder 'cyk' takes at most "
                f"{self.max_tokens}, because its time grows with the cube of the length. Leave out long sequences, "
                "or set 'max_tokens' of the encoder higher (0 for no limit)"
            )

    def _spans(self, hard: bool, *chart: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes [B, m, s] of the spans that are one token longer than the last of the chart, and their best splits.

        A split [B, m] is the number of tokens in the left part.
        """
        if self.checkpoint and torch.is_grad_enabled():
            found: tuple[Tensor, Tensor] = checkpointed(self._mean, hard, *chart, use_reentrant=False)
            return found
        return self._mean(hard, *chart)

    def _mean(self, hard: bool, *chart: Tensor) -> tuple[Tensor, Tensor]:
        length, count = len(chart) + 1, chart[-1].shape[1] - 1
        left = torch.stack([chart[k - 1][:, :count] for k in range(1, length)], 2)  # [B, m, length - 1, s]
        right = torch.stack([chart[length - k - 1][:, k : k + count] for k in range(1, length)], 2)
        parents = self.cell(left, right)
        scores = self._scores(at_least_float32(self.cell.readout(parents)))
        best = scores.argmax(2)
        weights = (
            one_hot(best, length - 1) if hard else (scores / self.temperature.to(scores.dtype)).softmax(2)
        )
        nodes = (weights.to(parents.dtype).unsqueeze(2) @ parents).squeeze(2)
        return nodes.to(left.dtype), best + 1

    def _scores(self, vectors: Tensor) -> Tensor:
        """The scores [...] of vectors [..., d]."""
        query = self.query.to(vectors.dtype)
        return cosine_similarity(vectors, query, -1) if self.score == "cosine" else vectors @ query


def _joins(splits: list[list[int]]) -> list[int]:
    """The joins along the best splits of a sequence, given for spans of 2, 3, ... tokens by their first token."""
    waiting, found = [(0, len(splits) + 1)], []
    while waiting:
        start, length = waiting.pop()
        if length > 1:
            left = splits[length - 2][start]
            found.append(start + left - 1)
            waiting += [(start, left), (start + left, length - left)]
    return found[::-1]  # from the root down, so turned round
