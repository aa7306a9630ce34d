"""Batches that fit into memory: a budget of tokens, and what to do when memory runs out all the same."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import torch

from crvnn_core.errors import InputError
from crvnn_core.interfaces import Example
from crvnn_core.training.data import example_length

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
