"""Trees that need no model, to compare found ones with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from crvnn_core.trees.tree import Node, Tree


def left_branching(tokens: Sequence[str]) -> Tree:
    """``(((a b) c) d)``: each token joins all that is before it."""
    return Tree.joining(tokens, range(len(tokens) - 1))


def right_branching(tokens: Sequence[str]) -> Tree:
    """``(a (b (c d)))``: each token joins all that is behind it."""
    return Tree.joining(tokens, reversed(range(len(tokens) - 1)))


def balanced(tokens: Sequence[str]) -> Tree:
    """``((a b) (c d))``: a span of n tokens splits after its first ceil(n / 2), and so on down."""
    return splitting(tokens, lambda start, end: start + (end - start + 1) // 2)


def at_random(tokens: Sequence[str], seed: str | int = 0) -> Tree:
    """From the whole downwards, a span splits after each of its tokens but the last with the same chance.

    The same tokens and seed give the same tree.
    """
    chance = random.Random(f"tree {seed} {' '.join(tokens)}").random
    return splitting(tokens, lambda start, end: start + 1 + int(chance() * (end - start - 1)))


def splitting(tokens: Sequence[str], where: Callable[[int, int], int]) -> Tree:
    """The tree whose every span (start, end) of two tokens or more splits where it is told to."""
    nodes = []
    waiting = [(0, len(tokens))]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            split = where(start, end)
            nodes.append(Node(start, split, end))
            waiting += [(start, split), (split, end)]
    return Tree(tokens, reversed(nodes))


BASELINES: dict[str, Callable[[Sequence[str]], Tree]] = {
    "left-branching": left_branching,
    "right-branching": right_branching,
    "balanced": balanced,
    "random": at_random,
}
