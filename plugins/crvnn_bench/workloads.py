"""Sequences to measure with: ListOps expressions of given lengths, and random tokens."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import islice

from attrs import frozen

from crvnn_core import Batch, Example, InputError
from crvnn_core.training.data import Vocabulary, collate
from crvnn_tasks.listops.language import VOCABULARY, evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions


@frozen
class Range:
    """Lengths from ``low`` to ``high`` tokens."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}-{self.high}" if self.low < self.high else str(self.low)


def read_range(text: str) -> Range:
    """``701-1000``, or ``1000`` for one length."""
    found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", text.strip())
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 4 <= low <= high:
        raise InputError(f"lengths '{text}': expected as 701-1000 or 1000, of at least 4 tokens")
    return Range(low, high)


def examples_of(lengths: Range, count: int, seed: int) -> list[Example]:
    """So many different ListOps expressions of these lengths, made by the published recipe."""
    recipe = Recipe(min_tokens=lengths.low, max_tokens=lengths.high)
    made = [
        Example((tokens,), evaluate(tokens)) for tokens in islice(expressions(recipe, f"bench {seed}"), count)
    ]
    if len(made) < count:
        raise InputError(
            f"lengths '{lengths}': there are only {len(made)} such expressions, {count} are asked for"
        )
    return made


def samples_of(lengths: Range, size: int, samples: int, seed: int) -> list[list[Example]]:
    """The samples in whole batches, at least one."""
    rows = examples_of(lengths, max(1, samples // size) * size, seed)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def random_batch(length: int, vocabulary: Vocabulary, seed: int, device: str = "cpu") -> Batch:
    """One sequence of random tokens, for lengths that no expression has."""
    return collate(random_examples([length], seed), vocabulary).to(device)


def random_examples(lengths: Sequence[int], seed: int) -> list[Example]:
    """A sequence of random tokens of each length."""
    generator = random.Random(f"bench {seed}")
    return [Example((tuple(generator.choices(VOCABULARY, k=length)),), 0) for length in lengths]
