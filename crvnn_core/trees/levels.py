"""Trees as tensors: the step in which each token joins its right neighbour, if every pair does as soon as it can."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crvnn_core.errors import InputError
from crvnn_core.trees.tree import Tree


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
