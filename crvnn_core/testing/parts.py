"""Plain parts with known answers, to try an encoder or the engine with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crvnn_core.engine.checks import checked_lengths
from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood
from crvnn_core.host.slots import SLOT_BY_NAME
from crvnn_core.interfaces import (
    Cell,
    Decision,
    Encoder,
    Encoding,
    Example,
    Halting,
    Neighbourhood,
    Retriever,
    Scorer,
    Task,
)
from crvnn_core.trees import Tree


class PlainRetriever(Retriever):
    """Eq. 6 as a matrix of products."""

    def forward(self, exists: Tensor, mask: Tensor) -> Neighbourhood:
        exists = exists * mask
        return MatrixNeighbourhood(_products(exists.flip(1)).flip(1, 2), _products(exists))


def _products(exists: Tensor) -> Tensor:
    """[B, n] -> [B, n, n]: the probability that j is the first position after i that exists."""
    n = exists.shape[1]
    later = torch.ones(n, n, dtype=torch.bool, device=exists.device).triu(1)
    missing = torch.where(later, 1 - exists.unsqueeze(1), 1).cumprod(2)  # none after i, up to j, exists
    return exists.unsqueeze(1) * missing.roll(1, 2).triu(1)


class PlainScorer(Scorer):
    """One linear score of a position, the one to its left and the two to its right."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(4 * width, 1)

    def forward(self, vectors: Tensor, near: Neighbourhood, left_c: Tensor) -> Tensor:
        right = near.right(vectors)
        scores: Tensor = self.score(torch.cat([near.left(vectors), vectors, right, near.right(right)], -1))
        return scores.squeeze(-1)


class PlainDecision(Decision):
    """A sigmoid."""

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return torch.sigmoid(scores) * eligible


class PlainCell(Cell):
    """One affine map and tanh."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.first, self.compose = nn.Linear(width, width), nn.Linear(2 * width, width)

    def leaf(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.first(inputs))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.tanh(self.compose(torch.cat([left, right], -1)))


class AddingCell(Cell):
    """The parent is the sum of its children: under any tree, the root is the sum of the leaves."""

    def leaf(self, inputs: Tensor) -> Tensor:
        return inputs

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


class BracketingCell(Cell):
    """Shows the tree itself: a node's first number stands for a bracketing, which ``name`` gives back."""

    def __init__(self, width: int, tokens: Sequence[str]) -> None:
        super().__init__(width)
        self.names = list(tokens)

    def name(self, state: Tensor) -> str:
        """The bracketing that a state [width] stands for."""
        return self.names[round(state[0].item())]

    def leaf(self, inputs: Tensor) -> Tensor:
        return inputs

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        parent = torch.zeros_like(right)
        flat = parent.view(-1, self.width)
        for place, (one, two) in enumerate(
            zip(left.reshape(-1, self.width), right.reshape(-1, self.width), strict=True)
        ):
            name = f"({self.name(one)} {self.name(two)})"
            if name not in self.names:
                self.names.append(name)
            flat[place, 0] = self.names.index(name)
        return parent


class PlainHalting(Halting):
    """Stops when at most one token exists with more than a hundredth."""

    def forward(self, exists: Tensor, vectors: Tensor, step: int) -> Tensor:
        return (exists > 0.01).sum(1) > 1


class ScriptedDecision(Decision):
    """Composes the positions that a script names for each step, whatever the scores; START counts as a position."""

    def __init__(self, order: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.order, self.step = order, 0

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        chosen = torch.zeros_like(scores)
        chosen[:, list(self.order[self.step])] = 1
        self.step += 1
        return chosen


class LetterTask(Task):
    """A few short texts, with right-branching trees for gold."""

    vocabulary = ("a", "b", "c", "d")
    classes = ("no", "yes")

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        for length, label in ((5, 1), (1, 0), (3, 1), (4, 0)):
            yield Example((tuple(self.vocabulary[i % 4] for i in range(length)),), label)

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        return tuple(Tree.joining(s, range(len(s) - 2, -1, -1)) for s in example.sequences)


class PlainEncoder(Encoder):
    """A plain cell from left to right, soft or hard: there is nothing to decide."""

    hard_inference = True

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.cell = PlainCell(width)

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        leaves = self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(-1), 0)).to(inputs.dtype)
        node = leaves[:, 0]
        for place in range(1, max(lengths)):
            parent = self.cell(node, leaves[:, place]).to(node.dtype)
            node = torch.where(mask[:, place, None], parent, node)
        joins = [list(range(n - 1)) for n in lengths] if trace else None
        return Encoding(node, node.new_zeros(len(node)), mask.sum(1) - 1, joins=joins)


def everything(width: int) -> dict[str, Any]:
    """All that a component of any slot may ask for by name."""
    filled_in = {"width": width, "params": [nn.Parameter(torch.zeros(1))], "task": LetterTask(), "seed": 0}
    return {**filled_in, **encoder_arguments(width)}


def encoder_arguments(width: int) -> dict[str, nn.Module]:
    """All that an encoder may ask for by name beside its width: a part for each slot, and another encoder."""
    return {**plain_parts(width), SLOT_BY_NAME["encoder"].inner: PlainEncoder(width)}


def plain_parts(width: int) -> dict[str, nn.Module]:
    """One part for each slot that an encoder may ask for."""
    return {
        "retriever": PlainRetriever(),
        "scorer": PlainScorer(width),
        "decision": PlainDecision(),
        "cell": PlainCell(width),
        "halting": PlainHalting(),
    }
