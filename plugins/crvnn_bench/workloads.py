"""Inputs for measurements: ListOps expressions of given lengths, and random tokens."""

from __future__ import annotations

import random
import re
from itertools import islice

from attrs import frozen

from crvnn_core import Batch, Example, InputError, Model
from crvnn_core.training.data import example_length
from crvnn_core.trees import Tree
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
    """The range that ``701-1000`` or ``1000`` stands for; an error for any other text."""
    found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", text.strip())
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 4 <= low <= high:
        raise InputError(f"lengths '{text}': expected as 701-1000 or 1000, of at least 4 tokens")
    return Range(low, high)


def samples_of(
    lengths: Range, size: int, samples: int, seed: int, *, similar: bool = False
) -> list[list[Example]]:
    """Different ListOps expressions in batches of ``size``: as many whole batches as ``samples`` fill, at least one.

    :param similar: batches of similar lengths, as training makes them.
    """
    count = max(1, samples // size) * size
    recipe = Recipe(min_tokens=lengths.low, max_tokens=lengths.high)
    rows = [Example((made,), evaluate(made)) for made in islice(expressions(recipe, f"bench {seed}"), count)]
    if len(rows) < count:
        raise InputError(
            f"lengths '{lengths}': there are only {len(rows)} such expressions, {count} were requested"
        )
    if similar:
        rows.sort(key=example_length)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def random_batch(length: int, model: Model, seed: int, device: str = "cpu") -> Batch:
    """A batch of one sequence of random tokens, for lengths that no expression has; with a random tree if need be."""
    example = Example((tuple(random.Random(f"bench {seed}").choices(VOCABULARY, k=length)),), 0)
    trees = None
    if model.encoder.needs_trees:
        order = random.Random(f"bench tree {seed}").sample(range(length - 1), length - 1)
        trees = [[Tree.joining(example.sequences[0], order)]]
    return model.batch([example], trees).to(device)
