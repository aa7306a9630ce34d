"""The examples of a split or an epoch, checked and in batches that fit into memory."""

from __future__ import annotations

import gc
import operator
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import torch

from crvnn_core.errors import InputError, UnknownNameError, nearest
from crvnn_core.interfaces import Example, Task
from crvnn_core.model.batch import Batch, Vocabulary, collate

if TYPE_CHECKING:
    from crvnn_core.spec.assembly import Assembly


def batches(
    task: Task, split: str, size: int, seed: int, vocabulary: Vocabulary | None = None
) -> Iterator[Batch]:
    """The examples of a split, ``size`` at a time."""
    vocabulary = vocabulary or Vocabulary(task.vocabulary)
    examples = split_examples(task, split, seed)
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
        return "has a string for a sequence; give a tuple of tokens"
    try:
        known = 0 <= operator.index(example.label) < len(task.classes)
    except TypeError:
        known = False
    return "" if known else f"has the label {example.label!r}; labels are 0 to {len(task.classes) - 1}"


#: Tokens, padding included, of one forward pass outside training: enough that the overhead of a step is small, and few
#: enough for the cache of a CPU (docs/explanation/speed.md).
TOKEN_BUDGET = 2048


def within_budget(examples: Sequence[Example], tokens: int) -> list[list[int]]:
    """Batches of similar lengths that have at most ``tokens`` tokens each, padding included.

    :param tokens: 0 for no limit: one batch of all examples in the order given. An example that is longer than the
        limit is a batch of its own.
    :return: for each batch the indices of its examples, from short to long.
    """
    if not tokens:
        return [list(range(len(examples)))]
    groups: list[list[int]] = []
    longest: tuple[int, ...] = ()
    for index in sorted(range(len(examples)), key=lambda index: example_length(examples[index])):
        lengths = tuple(map(len, examples[index].sequences))
        joint = tuple(map(max, longest, lengths)) if groups else lengths
        if groups and (len(groups[-1]) + 1) * sum(joint) <= tokens:
            groups[-1].append(index)
            longest = joint
        else:
            groups.append([index])
            longest = lengths
    return groups


def grouped(examples: Sequence[Example], size: int | None = None) -> list[list[int]]:
    """Batches of similar lengths for inference, by the indices of their examples.

    :param size: examples of a batch; by default as many as are within ``TOKEN_BUDGET``.
    """
    if size is None:
        return within_budget(examples, TOKEN_BUDGET)
    if size < 1:
        raise InputError(f"batch_size must be at least 1, not {size}")
    order = sorted(range(len(examples)), key=lambda index: example_length(examples[index]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def padded_size(examples: Sequence[Example]) -> int:
    """Tokens and padding of a batch."""
    columns = zip(*(example.sequences for example in examples), strict=True)
    return len(examples) * sum(max(map(len, column)) for column in columns)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be allocated, on whatever device."""
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("can't allocate memory" in message or "out of memory" in message)
    )


def free_memory() -> None:
    """Collect garbage, and return the unused memory of the CUDA caching allocator to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


#: Rows below which a development split is too small to choose weights by: one row is five points of accuracy.
FEWEST_ROWS = 20


def development_split(task: Task) -> str:
    """The name of a task's development split; empty if it has none."""
    return task.development if task.development in task.splits[1:] else ""


def data_notes(task: Task, epoch: Sequence[Sequence[Example]], batch: int) -> Iterator[str]:
    """What a user should know about small data: no development split or one of a few rows, one step an epoch.

    :param epoch: the batches of the current epoch.
    :param batch: the spec's size of them.
    """
    if len(epoch) == 1 and 1 < len(epoch[0]) < batch:
        yield (
            f"an epoch has {len(epoch[0])} rows, which are one step (training.batch={batch}); "
            "a smaller batch takes more steps"
        )
    split = development_split(task)
    if not split:
        yield "there is no development split: the last weights are kept, and nothing stops early"
        return
    rows = len(list(islice(split_examples(task, split, 0), FEWEST_ROWS)))
    if rows < FEWEST_ROWS:
        advice = task.development_advice or "give it more rows"
        yield (
            f"the development split has {rows} row{'s' * (rows != 1)}, too few to choose the best weights by "
            f"(one of them is {100 / max(rows, 1):.0f} points of accuracy): {advice}"
        )


def check_splits(stages: Sequence[Assembly], evaluated: Sequence[str]) -> None:
    """Look for the data of all stages and of the splits to evaluate at the end: what is missing is an error now."""
    later = [(stage.task, stage.task.splits[0]) for stage in stages[1:]]
    development = [(stage.task, development_split(stage.task)) for stage in stages]
    last = [(stages[-1].task, name) for name in evaluated]
    for task, split in dict.fromkeys([*later, *development, *last]):
        if split:
            next(split_examples(task, split, 0), None)
