"""From examples to batches of numbers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from attrs import evolve, frozen
from torch import Tensor

from crvnn_core.errors import InputError, UnknownNameError, nearest
from crvnn_core.interfaces import Example, Task

PADDING, UNKNOWN = 0, 1  # the first two rows of every embedding
RESERVED = 2


@frozen(eq=False)
class Tokens:
    """Token numbers of B sequences, padded on the right."""

    ids: Tensor  # [B, n]
    mask: Tensor  # [B, n] bool


@frozen(eq=False)
class Batch:
    """Examples as tensors: one or two sequences each, and their labels."""

    sequences: tuple[Tokens, ...]
    labels: Tensor  # [B]

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device."""
        moved = tuple(Tokens(tokens.ids.to(device), tokens.mask.to(device)) for tokens in self.sequences)
        return evolve(self, sequences=moved, labels=self.labels.to(device))


class Vocabulary:
    """Numbers for tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens, RESERVED)}

    def __len__(self) -> int:
        return len(self.tokens) + RESERVED

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
    columns = zip(*(example.sequences for example in examples), strict=True)
    return Batch(
        tuple(vocabulary.encode(column) for column in columns),
        torch.tensor([int(example.label) for example in examples]),
    )


def batches(task: Task, split: str, size: int, seed: int) -> Iterator[Batch]:
    """The examples of a split, ``size`` at a time."""
    if split not in task.splits:
        raise UnknownNameError(
            f"no split is called '{split}'.{nearest(split, task.splits)} There are {task.splits}."
        )
    vocabulary = Vocabulary(task.vocabulary)
    examples = (_checked(task, split, number, each) for number, each in enumerate(task.examples(split, seed)))
    while chunk := list(islice(examples, size)):
        yield collate(chunk, vocabulary)


def _checked(task: Task, split: str, number: int, example: Example) -> Example:
    """An example as a task must give it; an error that names its place if it is not."""
    fault = _fault(task, example)
    if fault:
        raise InputError(f"example {number} of the split '{split}' {fault}")
    return example


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
