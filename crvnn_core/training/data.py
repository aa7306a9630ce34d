"""From examples to batches of token indices."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
from attrs import evolve, frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError, UnknownNameError, nearest
from crvnn_core.interfaces import Example, Task
from crvnn_core.trees import Tree
from crvnn_core.trees.levels import levels_of

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
                    f"sequence {row} is a text, not tokens; task.tokenize({sequence!r}) makes tokens of it"
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


def batches(
    task: Task, split: str, size: int, seed: int, vocabulary: Vocabulary | None = None
) -> Iterator[Batch]:
    """The examples of a split, ``size`` at a time."""
    vocabulary = vocabulary or Vocabulary(task.vocabulary)
    examples = iter(split_examples(task, split, seed))
    while chunk := list(islice(examples, size)):
        yield collate(chunk, vocabulary)


def split_examples(task: Task, split: str, seed: int) -> Iterator[Example]:
    """The examples of a split, each checked against the contract of a task."""
    if split not in task.splits:
        if reason := task.why_missing(split):
            raise InputError(reason)
        raise UnknownNameError(
            f"no split is called '{split}'.{nearest(split, task.splits)} There are {', '.join(task.splits)}."
        )
    return checked(task, task.examples(split, seed), f"the split '{split}'")


_POOL = {"shuffled": 50, "short-to-long": 10}  # batches that are sorted by length together


def epoch_batches(
    task: Task, size: int, seed: int, number: int, order: str = "shuffled"
) -> list[list[Example]]:
    """The training examples of epoch ``number`` in batches of similar lengths.

    Every batch has ``size`` examples but one, which has the rest.

    :param order: ``shuffled`` with the seed, or ``short-to-long`` within every 10 batches.
    """
    rows = list(islice(checked(task, task.epoch(seed, number), f"epoch {number}"), MOST_EXAMPLES + 1))
    if len(rows) > MOST_EXAMPLES:
        raise InputError(
            f"an epoch has more than {MOST_EXAMPLES:,} examples, or never ends; let the task give fewer at a time"
        )
    found = []
    together = size * _POOL[order]
    for start in range(0, len(rows), together):
        pool = sorted(rows[start : start + together], key=example_length)
        found += [pool[i : i + size] for i in range(0, len(pool), size)]
    if order == "shuffled":
        random.Random(f"batches {seed} {number}").shuffle(found)
    return found


def evenly_spaced(examples: Sequence[Example], count: int) -> list[Example]:
    """``count`` examples at equal distances; all of them if there are no more, or the count is 0."""
    if not 0 < count < len(examples):
        return list(examples)
    return [examples[i * len(examples) // count] for i in range(count)]


#: The most examples of an epoch, all of which are in memory.
MOST_EXAMPLES = 5_000_000


def example_length(example: Example) -> int:
    """The tokens of an example."""
    return sum(map(len, example.sequences))


def checked(task: Task, examples: Iterable[Example], where: str) -> Iterator[Example]:
    """The same examples; an error that names the first one that breaks the contract of a task."""
    for number, example in enumerate(examples):
        fault = _fault(task, example)
        if fault:
            raise InputError(f"example {number} of {where} {fault}")
        yield example


def _fault(task: Task, example: Example) -> str:
    if not isinstance(example, Example):
        return f"is {example!r}, not a crvnn_core.Example"
    if len(example.sequences) != task.arity:
        return f"has {len(example.sequences)} sequences; the task's arity is {task.arity}"
    if any(len(sequence) == 0 for sequence in example.sequences):
        return "has an empty sequence"
    if any(isinstance(sequence, str) for sequence in example.sequences):
        return "has a text for a sequence; give a tuple of tokens"
    try:
        known = 0 <= operator.index(example.label) < len(task.classes)
    except TypeError:
        known = False
    return "" if known else f"has the label {example.label!r}; labels are 0 to {len(task.classes) - 1}"
