"""Examples as tensors of token indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from attrs import evolve, frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.interfaces import Example
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of

PADDING, UNKNOWN = 0, 1  # the first two rows of every embedding
RESERVED = 2


@frozen(eq=False)
class Tokens:
    """Token indices of B sequences, padded on the right."""

    ids: Tensor  # [B, n]
    mask: Tensor  # [B, n] bool
    #: The trees to compose along [B, n], as ``Encoder.forward`` takes them; for an encoder with ``needs_trees``.
    levels: Tensor | None = None
    #: The same trees as the task gives them. Tokens of structure are in these, and neither in ``ids`` nor ``levels``.
    trees: tuple[Tree, ...] | None = None

    def to(self, device: torch.device | str) -> Tokens:
        """The tokens on a device."""
        levels = None if self.levels is None else self.levels.to(device)
        return evolve(self, ids=self.ids.to(device), mask=self.mask.to(device), levels=levels)

    def expected_levels(self) -> Tensor:
        """The levels; an error if there are none."""
        if self.levels is None:
            raise CrvnnError("this batch has no trees to compose along: make it with Model.batch(examples)")
        return self.levels

    def first(self, count: int) -> Tokens:
        """The first sequences."""
        levels = None if self.levels is None else self.levels[:count]
        trees = None if self.trees is None else self.trees[:count]
        return Tokens(self.ids[:count], self.mask[:count], levels, trees)


@frozen(eq=False)
class Batch:
    """Examples as tensors: one or two sequences for each, and the labels."""

    sequences: tuple[Tokens, ...]
    labels: Tensor  # [B]

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device."""
        moved = tuple(tokens.to(device) for tokens in self.sequences)
        return evolve(self, sequences=moved, labels=self.labels.to(device))

    def first(self, count: int) -> Batch:
        """A batch of the first examples."""
        return Batch(tuple(tokens.first(count) for tokens in self.sequences), self.labels[:count])


class Vocabulary:
    """The index of every known token; padding and unknown tokens have indices of their own."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens, RESERVED)}

    def __len__(self) -> int:
        return len(self.tokens) + RESERVED

    def __contains__(self, token: object) -> bool:
        return token in self._numbers

    def encode(self, sequences: Sequence[Sequence[str]]) -> Tokens:
        """Several token sequences as one padded tensor. An empty one is an error that names its place."""
        for row, sequence in enumerate(sequences):
            if len(sequence) == 0:
                raise InputError(f"sequence {row} is empty: there is nothing to encode")
            if isinstance(sequence, str):
                raise InputError(
                    f"sequence {row} is a string, not tokens; task.tokenize({sequence!r}) makes tokens of it"
                )
        if not sequences:
            raise InputError("there are no sequences to encode")
        longest = max(map(len, sequences))
        ids = torch.full((len(sequences), longest), PADDING)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(
                [self._numbers.get(token, UNKNOWN) for token in sequence]
            )
        return Tokens(ids, ids != PADDING)


def collate(examples: Sequence[Example], vocabulary: Vocabulary) -> Batch:
    """Examples as one batch."""
    if not examples:
        raise InputError("there are no sequences to encode")
    columns = zip(*(example.sequences for example in examples), strict=True)
    return Batch(
        tuple(vocabulary.encode(column) for column in columns),
        torch.tensor([int(example.label) for example in examples]),
    )


def collate_trees(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    trees: Sequence[Sequence[Tree]],
    composed: Callable[[Tree, Sequence[str]], Tree],
) -> Batch:
    """Examples as one batch with their trees.

    :param trees: of the sequences of each example.
    :param composed: what of a tree over tokens an encoder composes.
    """
    along = [
        tuple(map(composed, each, example.sequences)) for each, example in zip(trees, examples, strict=True)
    ]
    batch = collate(
        [evolve(e, sequences=tuple(t.tokens for t in each)) for e, each in zip(examples, along, strict=True)],
        vocabulary,
    )
    columns = zip(batch.sequences, zip(*along, strict=True), zip(*trees, strict=True), strict=True)
    return evolve(
        batch,
        sequences=tuple(
            evolve(tokens, levels=levels_of(part, tokens.mask), trees=whole)
            for tokens, part, whole in columns
        ),
    )
