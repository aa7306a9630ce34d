"""Gold trees for encoders that compose along given trees: as the task gives them, and as tensors of levels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from textwrap import shorten
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.interfaces import Encoder, Example, Task
from crvnn_core.trees.tree import Node, Tree

#: What to do without trees.
WAY_OUT = "The encoders 'crvnn', 'gumbel-tree', 'balanced' and others need no trees ('crvnn list encoders' has all)."


def gold_trees(task: Task, example: Example, way_out: str) -> tuple[Tree, ...]:
    """The gold tree of each sequence of an example, as ``Task.gold`` gives them.

    :param way_out: what to do instead, for the error if the task has no tree of a sequence.
    """
    found = task.gold(example)
    if len(found) != len(example.sequences):
        raise CrvnnError(
            f"{type(task).__name__}.gold returned {len(found)} trees of {len(example.sequences)} sequences"
        )
    return tuple(
        _checked(task, tree, tokens, way_out) for tree, tokens in zip(found, example.sequences, strict=True)
    )


def _checked(task: Task, tree: Tree | None, tokens: Sequence[str], way_out: str) -> Tree:
    kind, text = type(task).__name__, shorten(" ".join(tokens), 60)
    if tree is None:
        raise CrvnnError(f"the task {kind} has no gold tree of '{text}'. {way_out}")
    if len(tree.tokens) != len(tokens):
        raise CrvnnError(
            f"the task {kind} has a gold tree of {len(tree.tokens)} tokens for '{text}', which has {len(tokens)}"
        )
    return tree


def without_structure(tree: Tree, structure: Collection[str]) -> Tree:
    """The tree over the tokens that are not in ``structure``; the tree itself if none is left.

    A node with such tokens in one of its children only is that child.
    """
    kept = [token for token in tree.tokens if token not in structure]
    if not kept or len(kept) == len(tree.tokens):
        return tree
    before = list(accumulate((token not in structure for token in tree.tokens), initial=0))
    places = ((before[node.start], before[node.split], before[node.end]) for node in tree.nodes)
    return Tree(kept, [Node(*place) for place in places if place[0] < place[1] < place[2]])


@frozen(eq=False)
class TreeSource:
    """Where a model whose encoder declares ``needs_trees`` gets its trees from: the task."""

    task: Task | None = None

    @classmethod
    def of(cls, task: Task, encoder: Encoder) -> TreeSource:
        """That of a task, for an encoder; an error if the encoder needs trees, and the task defines none."""
        if not encoder.needs_trees:
            return cls()
        if type(task).gold is Task.gold:
            raise CrvnnError(
                f"it composes along gold trees, and the task {type(task).__name__} has none. {WAY_OUT} "
                "A task of one's own has trees if it defines 'gold'."
            )
        return cls(task)

    def __deepcopy__(self, memo: dict[int, Any]) -> TreeSource:
        return self  # a copy of a model reads the same data

    @property
    def arity(self) -> int:
        """The sequences of an example."""
        return self._expected().arity

    def trees(self, example: Example) -> tuple[Tree, ...]:
        """The gold tree of each sequence of an example; an error if there is one without."""
        return gold_trees(self._expected(), example, WAY_OUT)

    def composed(self, tree: Tree, tokens: Sequence[str]) -> Tree:
        """What of a tree over ``tokens`` is composed: all but the task's ``structure_tokens``."""
        own = tree if tree.tokens == tuple(tokens) else Tree(tokens, tree.nodes)
        return without_structure(own, self._expected().structure_tokens)

    def _expected(self) -> Task:
        if self.task is None:
            raise CrvnnError(
                "the model's encoder composes along the trees of its task, which the model does not know: set "
                "model.tree_source = crvnn_core.trees.gold.TreeSource(task)"
            )
        return self.task


def levels_of(trees: Sequence[Tree], mask: Tensor) -> Tensor:
    """The levels [B, n] of the trees of B sequences, on the device of their ``mask`` [B, n].

    A token's level is the step, from 1, in which it joins its right neighbour with all that has joined it; the last
    token of a sequence and padding have 0.
    """
    rows = [[0] * mask.shape[1] for _ in trees]
    lengths = mask.sum(1).tolist()
    for row, tree, length in zip(rows, trees, lengths, strict=True):
        if len(tree.tokens) != length:
            raise InputError(f"a tree has {len(tree.tokens)} tokens, and its sequence {length}")
        for node, height in zip(tree.nodes, tree.heights(), strict=True):
            row[node.split - 1] = height
    return torch.tensor(rows, device=mask.device)


def tree_along(levels: Sequence[int], tokens: Sequence[str]) -> Tree:
    """The tree of one sequence, from the levels of its tokens."""
    order = sorted(range(len(tokens) - 1), key=lambda position: (levels[position], position))
    return Tree.joining(tokens, order, list(levels))
