"""Objectives: the labels alone, trees that the model finds by itself, and gold trees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from crvnn_core import Batch, CrvnnError, Example, Model, Objective, Task, Tokens
from crvnn_core.annotations import Count, Probability, Weight, check_ranges
from crvnn_core.model.model import Output, expect_tree_supervision
from crvnn_core.precision import at_least_float32
from crvnn_core.training.data import split_examples
from crvnn_core.trees.gold import gold_trees, levels_of
from crvnn_parts.substitution import WholeSequences

_WAY_OUT = "The objectives 'labels' and 'self-training' need none."


class Labels(Objective):
    """The cross-entropy of the labels, and the encoder's penalty: the paper's loss."""

    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        output = forward(batch)
        return output.loss(batch.labels), output


class AlongTrees(Objective):
    """The cross-entropy of the labels when composing along given trees, and that of the decisions that build them.

    :param decisions: weight of the decisions.
    """

    @check_ranges
    def __init__(self, decisions: Weight = 1.0) -> None:
        self.decisions = decisions

    def expect(self, model: Model) -> None:
        try:
            expect_tree_supervision(model.encoder)
        except CrvnnError as error:
            raise CrvnnError(f"{error}. The objective 'labels' trains every encoder.") from None

    def along(
        self, forward: Callable[..., Output], batch: Batch, levels: Sequence[Tensor], supervised: Tensor
    ) -> tuple[Tensor, Output]:
        """The loss along trees, and the output; the decisions of an example count ``supervised`` [B] times."""
        output = forward(batch, levels=levels)
        loss = output.loss(batch.labels)
        for encoding in output.encodings:
            assert encoding.decision_loss is not None
            loss = loss + self.decisions * (encoding.decision_loss * supervised).mean() / len(
                output.encodings
            )
        return loss, output


class GoldTrees(AlongTrees):
    """Composes along the gold trees of the task, and supervises the decisions on them.

    :param decisions: weight of the decisions.
    """

    @check_ranges
    def __init__(self, task: Task, decisions: Weight = 1.0) -> None:
        super().__init__(decisions)
        self.task = task

    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        trees = (gold_trees(self.task, example, _WAY_OUT) for example in examples)
        columns = zip(*trees, strict=True)  # one for each sequence of a pair
        levels = [
            levels_of(trees, tokens.mask) for trees, tokens in zip(columns, batch.sequences, strict=True)
        ]
        return self.along(forward, batch, levels, torch.ones_like(batch.labels))


class SelfTraining(AlongTrees):
    """Samples trees, and trains along the one along which the label is most likely. No gold tree is used.

    This is hard expectation maximisation over trees, estimated from samples: the cell and the head are trained along
    the best of several trees, and where the label is likely enough along it, the decisions are supervised on it.

    :param samples: trees for each example.
    :param noise: by which Gumbel noise on the scores is multiplied when a tree is sampled.
    :param confidence: decisions are supervised on trees along which the label has at least this probability.
    :param decisions: weight of the decisions.
    :param weighting: by what decisions are multiplied beside their weight: ``equal`` for nothing, ``advantage`` for how
        much more likely the label is along the chosen tree than along the mean one: the difference of their log
        probabilities. Labels that are likely along any tree then say little about structure.
    :param substitution: sample only trees in which spans that are whole sequences elsewhere in the training split are
        constituents, as far as these spans do not cross: of those that do, tokens that more of them hold together join
        first. Where training data is made anew for each epoch, the split is that of the first.
    """

    @check_ranges
    def __init__(
        self,
        task: Task,
        samples: Count = 4,
        noise: Weight = 1.0,
        confidence: Probability = 0.5,
        decisions: Weight = 1.0,
        weighting: Literal["equal", "advantage"] = "equal",
        substitution: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(decisions)
        self.task, self.seed, self.substitution = task, seed, substitution
        self._whole: WholeSequences | None = None  # read when the first batch comes
        self.samples, self.noise, self.confidence, self.weighting = samples, noise, confidence, weighting

    def expect(self, model: Model) -> None:
        super().expect(model)
        if self.substitution and "cohesion" not in inspect.signature(model.encoder.sample).parameters:
            name = type(model.encoder).__name__
            raise CrvnnError(
                f"the encoder {name} cannot limit the trees that it samples: with 'substitution' its 'sample' has to "
                "take 'cohesion'"
            )

    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        sampled = model.sample(_repeated(batch, self.samples), self.noise, self._cohesion(model, batch))
        count = len(batch.labels)
        logs = at_least_float32(sampled.logits).log_softmax(-1).view(self.samples, count, -1)
        index = batch.labels.expand(self.samples, -1).unsqueeze(2)
        likelihoods = logs.gather(2, index).squeeze(2)  # log p of the labels [samples, B]
        highest, best = likelihoods.max(0)
        rows = best * count + torch.arange(count, device=best.device)
        levels = [encoding.levels[rows] for encoding in sampled.encodings if encoding.levels is not None]
        weights = (highest.exp() >= self.confidence).to(highest.dtype)
        if self.weighting == "advantage":
            weights = weights * (highest - likelihoods.mean(0))
        return self.along(forward, batch, levels, weights)

    def _cohesion(self, model: Model, batch: Batch) -> list[Tensor] | None:
        """What limits the sampled trees of a batch, repeated as often as it is."""
        if not self.substitution:
            return None
        if self._whole is None:
            examples = split_examples(self.task, self.task.splits[0], self.seed)
            self._whole = WholeSequences(examples, model.vocabulary)
        return [self._whole.cohesion(tokens).repeat(self.samples, 1) for tokens in batch.sequences]


def _repeated(batch: Batch, times: int) -> Batch:
    """The batch, ``times`` over: row i of the batch is in the rows i, B + i, 2 B + i, ..."""
    sequences = tuple(
        Tokens(tokens.ids.repeat(times, 1), tokens.mask.repeat(times, 1)) for tokens in batch.sequences
    )
    return Batch(sequences, batch.labels.repeat(times))
