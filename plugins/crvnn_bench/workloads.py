"""What is measured on: ListOps expressions of given lengths, or random tokens."""

from __future__ import annotations

import math
import random
import re
from functools import cache
from itertools import chain, islice

from attrs import frozen

from crvnn_bench.contenders import Contender, Work
from crvnn_bench.setup import Setup
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


@frozen(kw_only=True)
class Workload:
    """What every contender does, and within which limits."""

    lengths: Range
    batch: int = 1
    #: How many expressions in all, in whole batches.
    samples: int = 1
    #: Whether the expressions of a batch have similar lengths, as in training.
    similar: bool = False
    #: A sequence of random tokens instead of expressions.
    random: bool = False
    work: Work = "train"
    repeats: int = 1
    #: Seconds that one repeat of a contender may take before it is measured fewer times.
    limit: float = math.inf
    #: Seconds and bytes that one batch may take; a contender that needs more is not run. 0 seconds are no limit.
    step_limit: float = 0.0
    memory: float = math.inf

    def batches(self, contender: Contender, setup: Setup) -> tuple[list[Batch], Batch]:
        """The batches for a contender, and one that has the longest sequence alone."""
        model = contender.model
        if self.random:
            batch = random_batch(self.lengths.high, model, setup.seed, setup.device)
            return [batch], batch
        groups = samples_of(self.lengths, self.batch, self.samples, setup.seed, similar=self.similar)
        longest = max(chain(*groups), key=example_length)
        return [model.batch(group).to(setup.device) for group in groups], model.batch([longest]).to(
            setup.device
        )


@cache
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
