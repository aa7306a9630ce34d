"""The examples of a split or an epoch, checked and in batches."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from crvnn_core.errors import InputError, UnknownNameError, nearest
from crvnn_core.interfaces import Example, Task
from crvnn_core.model.batch import Batch, Vocabulary, collate


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
