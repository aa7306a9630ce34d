"""Objectives: the labels alone, trees that the model finds by itself, and gold trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crvnn_core import Batch, CrvnnError, Example, Model, Objective, Task, Tokens
from crvnn_core.inference.model import Output
from crvnn_core.trees.levels import levels_of


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

    def __init__(self, decisions: float = 1.0) -> None:
        if decisions < 0:
            raise ValueError(f"decisions cannot be negative, got {decisions}")
        self.decisions = decisions

    def expect(self, model: Model) -> None:
        if not model.encoder.tree_supervision:
            raise CrvnnError(
                f"the decisions of the encoder {type(model.encoder).__name__} cannot be supervised; an encoder "
                "offers it by setting 'tree_supervision = True'. Train it with the objective 'labels'."
            )

    def along(
        self, forward: Callable[..., Output], batch: Batch, levels: Sequence[Tensor], learnt: Tensor
    ) -> tuple[Tensor, Output]:
        """The loss along trees, and the output; decisions count where an example is ``learnt`` [B] (1 or 0)."""
        output = forward(batch, levels=levels)
        loss = output.loss(batch.labels)
        for encoding in output.encodings:
            assert encoding.decision_loss is not None
            loss = loss + self.decisions * (encoding.decision_loss * learnt).mean() / len(output.encodings)
        return loss, output


class GoldTrees(AlongTrees):
    """Composes along the gold trees of the task, and supervises the decisions on them.

    :param decisions: weight of the decisions.
    """

    def __init__(self, task: Task, decisions: float = 1.0) -> None:
        super().__init__(decisions)
        self.task = task

    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        trees = [self.task.gold(example) for example in examples]
        if any(tree is None for row in trees for tree in row):
            raise CrvnnError(
                "the task has no gold tree for some examples; train with the objective 'labels' or 'self-training'"
            )
        columns = zip(*trees, strict=True)
        levels = [
            levels_of([tree for tree in column if tree is not None], tokens.mask)
            for column, tokens in zip(columns, batch.sequences, strict=True)
        ]
        return self.along(forward, batch, levels, torch.ones_like(batch.labels))


class SelfTraining(AlongTrees):
    """Samples trees, and learns from the one along which the label is most likely. No gold tree is used.

    This is hard expectation maximisation over trees, estimated from samples: the cell learns along the best tree of
    several, and where the answer along it is right, the decisions learn to build it.

    :param samples: trees for each example.
    :param noise: by which Gumbel noise on the scores is multiplied when a tree is sampled.
    :param confidence: decisions learn from trees along which the label has at least this probability.
    :param decisions: weight of the decisions.
    """

    def __init__(
        self, samples: int = 4, noise: float = 1.0, confidence: float = 0.5, decisions: float = 1.0
    ) -> None:
        super().__init__(decisions)
        if samples < 1:
            raise ValueError(f"samples must be at least 1, not {samples}")
        if noise < 0:
            raise ValueError(f"noise cannot be negative, got {noise}")
        if not 0 <= confidence <= 1:
            raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
        self.samples, self.noise, self.confidence = samples, noise, confidence

    def loss(
        self, model: Model, forward: Callable[..., Output], batch: Batch, examples: Sequence[Example]
    ) -> tuple[Tensor, Output]:
        sampled = model.sample(_repeated(batch, self.samples), self.noise)
        chances = sampled.logits.softmax(-1).view(self.samples, len(batch.labels), -1)
        right = chances.gather(2, batch.labels.expand(self.samples, -1).unsqueeze(2)).squeeze(
            2
        )  # [samples, B]
        highest, best = right.max(0)
        rows = best * len(batch.labels) + torch.arange(len(best), device=best.device)
        levels = [_expect_levels(encoding.levels)[rows] for encoding in sampled.encodings]
        return self.along(forward, batch, levels, (highest >= self.confidence).to(right.dtype))


def _repeated(batch: Batch, times: int) -> Batch:
    sequences = tuple(
        Tokens(tokens.ids.repeat(times, 1), tokens.mask.repeat(times, 1)) for tokens in batch.sequences
    )
    return Batch(sequences, batch.labels.repeat(times))


def _expect_levels(levels: Tensor | None) -> Tensor:
    assert levels is not None, "an encoder's sample() gives levels"
    return levels
