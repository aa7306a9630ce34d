"""How well trees agree with gold ones, and with each other.

The convention is the usual one for unsupervised parsing. Spans are compared without labels; those that every tree has
are left out: single tokens and the whole sentence. So sentences of fewer than three tokens have nothing to compare and
are left out too. F1 is the mean over sentences; corpus F1 counts the spans of all sentences together, so that long
ones weigh more. Two binary trees have equally many spans, so precision, recall and F1 are one number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from crvnn_core.trees.tree import Node, Tree

if TYPE_CHECKING:
    from crvnn_core.interfaces import Example, Task


Spans = frozenset[tuple[int, int]]

#: Sentences of fewer tokens have only one tree.
SHORTEST = 3


@frozen
class Sentence:
    """A sentence to score: its gold tree, and those spans of it that are no convention (``Task.constituents``)."""

    gold: Tree
    constituents: Spans | None = None

    @property
    def too_short(self) -> bool:
        """Whether it has only one tree, so that there is nothing to score."""
        return len(self.gold.tokens) < SHORTEST


def gold_sentences(task: Task, example: Example) -> tuple[Sentence | None, ...]:
    """Each sequence of an example as a sentence to be scored; ``None`` where the task has no gold tree of it."""
    both = zip(task.gold(example), task.constituents(example), strict=True)
    return tuple(None if gold is None else Sentence(gold, own) for gold, own in both)


@frozen
class Score:
    """How well trees agree with the gold ones; ``None`` where there was nothing to compare."""

    sentences: int  # that were scored
    f1: float | None
    corpus_f1: float | None
    exact: float | None  # the share of trees that are the same
    constituents: float | None  # the share of the sentences' own constituents that the trees have
    depth: float | None  # on average

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def nontrivial_spans(tree: Tree) -> Spans:
    """The spans of a tree that not every tree over its tokens has."""
    return tree.spans() - {(0, len(tree.tokens))}


def f1(one: Tree, two: Tree) -> float:
    """Unlabelled F1 of the spans of two trees over the same tokens, three at least."""
    mine, theirs = nontrivial_spans(one), nontrivial_spans(two)
    return 2 * len(mine & theirs) / (len(mine) + len(theirs))


def score(trees: Sequence[Tree], sentences: Sequence[Sentence]) -> Score:
    """Trees against the gold ones of the same sentences."""
    scored = [
        (tree, sentence) for tree, sentence in zip(trees, sentences, strict=True) if not sentence.too_short
    ]
    pairs = [(nontrivial_spans(tree), nontrivial_spans(sentence.gold)) for tree, sentence in scored]
    shared = [len(mine & gold) for mine, gold in pairs]
    sizes = [len(mine) + len(gold) for mine, gold in pairs]
    own = [
        (tree.spans(), sentence.constituents - {(0, len(tree.tokens))})
        for tree, sentence in scored
        if sentence.constituents is not None
    ]
    return Score(
        len(scored),
        _share(sum(2 * both / size for both, size in zip(shared, sizes, strict=True)), len(scored)),
        _share(2 * sum(shared), sum(sizes)),
        _share(sum(mine == gold for mine, gold in pairs), len(scored)),
        _share(sum(len(spans & wanted) for spans, wanted in own), sum(len(wanted) for _, wanted in own)),
        _share(sum(tree.depth for tree, _ in scored), len(scored)),
    )


def agreement(runs: Sequence[Sequence[Tree]]) -> float | None:
    """The mean F1 of every two runs' trees of the same sentences; ``None`` where there is nothing to compare."""
    means = [mean_f1(one, two) for one, two in combinations(runs, 2)]
    found = [mean for mean in means if mean is not None]
    return _share(sum(found), len(found))


def mean_f1(one: Sequence[Tree], two: Sequence[Tree]) -> float | None:
    """The mean F1 of two runs' trees of the same sentences."""
    scores = [f1(mine, theirs) for mine, theirs in zip(one, two, strict=True) if len(mine.tokens) >= SHORTEST]
    return _share(sum(scores), len(scores))


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


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
    """The tree whose every span (start, end) of two tokens or more splits at the given positions."""
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
