"""The binary tree that a recursion amounts to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crvnn_core.trace import Trace

#: A token, or the trees of two children.
Tree = str | tuple["Tree", "Tree"]


def tree_of(trace: Trace, row: int, tokens: Sequence[str]) -> Tree:
    """The tree of one sequence: a position joins its right neighbour when it is more likely composed than not.

    A position that never is joins last. Positions that join in the same step do so from left to right.
    """
    n = len(tokens)
    gone = 1 - trace.exists[1:, row, :n]  # [K, n] probability of having been composed by each step
    steps = _first_reached(gone[:, : n - 1], 0.5)
    nodes: list[Tree] = list(tokens)
    ends = list(range(n))  # the last token of each node
    for _, position in sorted((step, position) for position, step in enumerate(steps)):
        place = ends.index(position)
        nodes[place : place + 2] = [(nodes[place], nodes[place + 1])]
        del ends[place]
    return nodes[0]


def _first_reached(values: Tensor, threshold: float) -> list[int]:
    """For each column of [K, m] the first row that reaches the threshold; K where none does."""
    steps = torch.arange(len(values), device=values.device).unsqueeze(1)
    reached = torch.where(values >= threshold, steps, len(values))
    first: list[int] = (reached.amin(0) if len(values) else reached.new_zeros(values.shape[1])).tolist()
    return first


#: Tokens that would be taken for brackets of the tree, as treebanks write them.
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


def brackets(tree: Tree) -> str:
    """A tree as text: ``((a b) c)``; tokens that are parentheses as ``-LRB-`` and ``-RRB-``."""
    written: list[str] = []
    waiting: list[Tree | None] = [tree]  # no recursion: trees can be as deep as sequences are long
    opened = True
    while waiting:
        node = waiting.pop()
        if node is None:
            written.append(")")
        else:
            if not opened:
                written.append(" ")
            if isinstance(node, str):
                written.append(_ESCAPES.get(node, node))
            else:
                written.append("(")
                waiting += [None, node[1], node[0]]
        opened = isinstance(node, tuple)
    return "".join(written)
