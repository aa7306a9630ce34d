"""What a model did with one input, as plain data: all that a picture needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.recursion import Recursion
from crvnn_core.errors import InputError
from crvnn_core.inference.trained import Text, Trained
from crvnn_core.interfaces import Encoding
from crvnn_core.training.data import UNKNOWN
from crvnn_core.trees import Tree, trees_of

Matrix = list[list[float]]


@frozen
class Watched:
    """One sequence of n tokens through K steps; no steps from an encoder that keeps no trace."""

    tokens: tuple[str, ...]
    #: Tokens that the model has no vector for.
    unknown: tuple[bool, ...]
    #: [K + 1][n] existence before the first step and after each.
    exists: Matrix
    #: [K][n] composition probabilities of each step.
    compose: Matrix
    tree: Tree | None
    #: [K][n][n] before each step, the weight of j as the left neighbour of i; what is missing to 1 is START's.
    left: list[Matrix] | None = None
    #: [K][n][n] likewise to the right; what is missing to 1 is END's.
    right: list[Matrix] | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON; numbers to six digits."""
        return {
            "tokens": list(self.tokens),
            "unknown": list(self.unknown),
            "exists": _rounded(self.exists),
            "compose": _rounded(self.compose),
            "tree": self.tree.plain() if self.tree is not None else None,
            "left": _rounded(self.left),
            "right": _rounded(self.right),
        }


@frozen
class Answer:
    """What a model says of one input, and how it came to it."""

    label: str
    probabilities: dict[str, float]
    #: One, or two for a task on pairs.
    sequences: tuple[Watched, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON; numbers to six digits."""
        return {
            "label": self.label,
            "probabilities": {name: round(chance, 6) for name, chance in self.probabilities.items()},
            "sequences": [sequence.plain() for sequence in self.sequences],
        }


def watch(trained: Trained, text: Text, *, hard: bool = False, weights: bool = False) -> Answer:
    """Ask a model about a text, or a pair of texts, and keep what its encoder did.

    :param hard: decide for real, and compose along one tree.
    :param weights: keep the retriever's weights too: n x n numbers for each step and side.
    """
    sequences = trained.question(text).sequences
    with trained.deciding(hard):
        output = trained.model.ask(*([tokens] for tokens in sequences), trace=True)
    chances = output.logits[0].float().softmax(-1).tolist()
    if not all(map(math.isfinite, chances)):
        raise InputError(
            "the model's answer to this text is no number: its weights, or the settings chosen for it, lead to "
            "numbers too large to reckon with"
        )
    watched = tuple(
        _watched(trained, tokens, encoding, hard, weights)
        for tokens, encoding in zip(sequences, output.encodings, strict=True)
    )
    by_class = dict(zip(trained.task.classes, chances, strict=True))
    return Answer(max(by_class, key=by_class.__getitem__), by_class, watched)


def _watched(
    trained: Trained, tokens: tuple[str, ...], encoding: Encoding, hard: bool, weights: bool
) -> Watched:
    ids = trained.model.vocabulary.encode([tokens]).ids[0].tolist()
    unknown = tuple(number == UNKNOWN for number in ids)
    trace, (tree,) = encoding.trace, trees_of(encoding, [tokens])
    if trace is None:
        return Watched(tokens, unknown, [], [], tree)
    n, steps = len(tokens), int(trace.steps[0])
    exists = trace.exists[: steps + 1, 0, :n].tolist()
    compose = trace.compose[:steps, 0, :n].tolist()
    sides = None
    if weights and isinstance(trained.model.encoder, Recursion):
        sides = [neighbours(trained, row, hard=hard) for row in exists[:-1]]
    return Watched(
        tokens,
        unknown,
        exists,
        compose,
        tree,
        left=[left for left, _ in sides] if sides is not None else None,
        right=[right for _, right in sides] if sides is not None else None,
    )


@torch.no_grad()
def neighbours(trained: Trained, exists: Sequence[float], *, hard: bool = False) -> tuple[Matrix, Matrix]:
    """Who is left and who is right of whom, [n][n] each, where the n tokens exist with these probabilities.

    :param hard: as under hard inference, which looks for the next token that is still there.
    """
    encoder = trained.model.encoder
    if not isinstance(encoder, Recursion):
        raise InputError(f"the encoder '{trained.spec.model.encoder.name}' looks for no neighbours")
    n, edge = len(exists), int(encoder.start is not None)
    # START and END exist for sure, and are not shown.
    row = pad(torch.tensor([list(exists)], device=trained.model.embed.weight.device), (edge, edge), value=1.0)
    identity = torch.eye(row.shape[1], device=row.device).unsqueeze(0)
    if hard:
        present = (row[0] > 0.5).tolist()
        left, right = _nearest(present, -1), _nearest(present, 1)
    else:
        near = encoder.retriever(row, torch.ones_like(row, dtype=torch.bool))
        left, right = near.left(identity)[0], near.right(identity)[0]  # of unit vectors: p_ij [N, N]
    inner = slice(edge, edge + n)
    return left[inner, inner].tolist(), right[inner, inner].tolist()


def _nearest(present: list[bool], side: int) -> Tensor:
    """[N, N] one where j is the next position of i's that is present, to the left (-1) or to the right (1)."""
    found = torch.zeros(len(present), len(present))
    for i in range(len(present)):
        j = i + side
        while 0 <= j < len(present) and not present[j]:
            j += side
        if 0 <= j < len(present):
            found[i, j] = 1
    return found


def _rounded(values: Any) -> Any:
    if isinstance(values, list):
        return [_rounded(value) for value in values]
    return values if values is None else round(values, 6)
