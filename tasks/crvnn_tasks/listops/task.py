"""ListOps: nested list operations on digits, whose answer is a digit (Nangia and Bowman, 2018)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Literal

import attrs
from torch import nn

from crvnn_core import Example, FilePath, Head
from crvnn_core.annotations import Count, CountOrZero, Range, check_ranges
from crvnn_core.trees import Tree
from crvnn_tasks.listops.language import (
    DIGITS,
    OPERATORS,
    VOCABULARY,
    evaluate,
    gold_tree,
    lists,
    split_of,
    tokenize,
)
from crvnn_tasks.listops.recipe import Recipe, expressions, expressions_again
from crvnn_tasks.rows import FileTask

__all__ = ["DIGITS", "OPERATORS", "ListOps", "evaluate", "split_of"]

_TRAIN = ("train_d20s.tsv", "train_d20s.tsv.gz")
_RANGES = (10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)  # the last length of each bucket

#: An integer of at least 2.
_TwoOrMore = Annotated[int, Range(ge=2)]


class ListOps(FileTask):
    """Nested lists such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``, generated as published or read from the published files.

    A hash of each generated expression decides its split, so that the splits are disjoint whatever the seed and the
    number of epochs. Results are reported by length: ``1-10``, ``11-20``, ``21-50``, ``51-100``, then by hundreds,
    and ``1001+``; the first number of a name gives the order.

    :param directory: where the published ``train_d20s.tsv`` and ``test_d20s.tsv`` are; empty to generate expressions.
    :param rows: training expressions per epoch; ignored with ``directory``.
    :param held_out: expressions in each of the development and test splits; with ``directory``, the first rows of
        the training file are for development, however long, and all of the test file is for testing.
    :param fresh: generate new training expressions for every epoch, rather than reshuffle the same ones.
    :param min_tokens: shorter expressions are omitted from training (and generated development rows).
    :param max_tokens: longer expressions are omitted from training (and generated development rows); 0 for no limit.
    :param test_min_tokens: shorter expressions are omitted from the test split.
    :param test_max_tokens: longer expressions are omitted from the test split; 0 for no limit.
    :param test_min_depth: expressions with fewer nested operators are omitted from the test split.
    :param growing: a curriculum: the maximal length in the first, second, ... epoch; afterwards ``max_tokens``.
    :param max_depth: at this depth all arguments are digits.
    :param operator_probability: of an operator rather than a digit as an argument.
    :param min_arguments: the fewest arguments of an operator.
    :param max_arguments: the most arguments of an operator.
    :param bad_rows: stop at a malformed row of a file, or skip it and report how many were skipped.
    """

    vocabulary = VOCABULARY
    classes = DIGITS
    files = {  # noqa: RUF012
        "train": (_TRAIN,),
        "dev": (_TRAIN,),
        "test": (("test_d20s.tsv", "test_d20s.tsv.gz"),),
    }
    source = "https://github.com/nyu-mll/spinn/tree/listops-release/python/spinn/data/listops"

    @check_ranges
    def __init__(
        self,
        directory: FilePath = "",
        rows: Count = 90_000,
        held_out: Count = 1000,
        fresh: bool = True,
        min_tokens: CountOrZero = 0,
        max_tokens: CountOrZero = 100,
        test_min_tokens: CountOrZero = 0,
        test_max_tokens: CountOrZero = 0,
        test_min_depth: CountOrZero = 0,
        growing: list[Count] = [],  # noqa: B006  (never mutated, and TOML has lists only)
        max_depth: _TwoOrMore = 20,
        operator_probability: Annotated[float, Range(gt=0, lt=1)] = 0.25,
        min_arguments: _TwoOrMore = 2,
        max_arguments: _TwoOrMore = 5,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        super().__init__(directory, bad_rows)
        self.generated = not directory
        self.count, self.held_out, self.fresh, self.growing = rows, held_out, fresh, tuple(growing)
        recipe = Recipe(
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            max_depth=max_depth,
            operator_probability=operator_probability,
            min_arguments=min_arguments,
            max_arguments=max_arguments,
        )
        try:
            testing = attrs.evolve(
                recipe, min_tokens=test_min_tokens, max_tokens=test_max_tokens, min_depth=test_min_depth
            )
        except ValueError as error:  # about tokens and depth: all else was validated above
            raise ValueError(f"test_{error}") from None
        self.recipes = {"train": recipe, "dev": recipe, "test": testing}
        for limit in self.growing:
            if not max(4, min_tokens) <= limit <= (max_tokens or limit):
                raise ValueError(f"growing: {limit} is not between min_tokens, or 4, and max_tokens")

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        recipe = self.recipes[split]
        if self.generated and split == "train":
            return self._training(recipe, seed, 0)
        if self.generated:
            return map(_example, islice(expressions(recipe, f"{split} {seed}", split), self.held_out))
        rows = super().examples(split, seed)
        return rows if split == "dev" else (e for e in rows if recipe.allows(e.sequences[0]))

    def epoch(self, seed: int, number: int) -> Iterable[Example]:
        recipe = self.recipes["train"]
        if number < len(self.growing):
            recipe = attrs.evolve(recipe, max_tokens=self.growing[number])
        if self.generated and self.fresh:
            return self._training(recipe, seed, number)
        return [example for example in super().epoch(seed, number) if recipe.allows(example.sequences[0])]

    def _training(self, recipe: Recipe, seed: int, number: int) -> Iterator[Example]:
        return map(_example, expressions_again(recipe, f"train {seed} {number}", "train", self.count))

    def holds(self, split: str, example: Example, place: int) -> bool:
        return split == "test" or (place < self.held_out) == (split == "dev")

    def example_of(self, line: str, number: int) -> Example | None:
        """A label and an expression, in either order; nothing of a first line that names the columns."""
        if number == 1 and line.strip() and not re.search(r"[\d\[\]]", line):
            return None
        cells = [cell.strip() for cell in line.strip("\r\n").split("\t")]
        if len(cells) != 2:
            found = f"found {len(cells)}" if line.strip() else "the line is empty"
            raise ValueError(f"expected a label and an expression with a tab between them; {found}")
        label, text = cells if cells[0] in DIGITS else reversed(cells)
        if label not in DIGITS:
            shown = ", ".join(repr(cell[:40]) for cell in cells)
            raise ValueError(f"neither column is a label, a digit from 0 to 9: {shown}")
        example = _example(tokenize(text))
        if example.label != int(label):
            raise ValueError(f"the label is {label}, but the value of the expression is {example.label}")
        return example

    def bucket(self, example: Example) -> str:
        length = len(example.sequences[0])
        place = bisect_left(_RANGES, length)
        first = _RANGES[place - 1] + 1 if place else 1
        return f"{first}-{_RANGES[place]}" if place < len(_RANGES) else f"{first}+"

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        """The tree of the published files, which is left-branching within a list by convention."""
        return tuple(map(gold_tree, example.sequences))

    def gold_label(self, sequences: tuple[tuple[str, ...], ...]) -> int:
        """The value of the expression."""
        return evaluate(sequences[0])

    def constituents(self, example: Example) -> tuple[frozenset[tuple[int, int]] | None, ...]:
        """The span of every list."""
        return tuple(map(lists, example.sequences))

    def tokenize(self, text: str) -> tuple[str, ...]:
        """The tokens of a user's text; ``InputError`` unless it is one well-formed expression."""
        tokens = tokenize(text)
        evaluate(tokens)
        return tokens

    def head(self, width: int, dropout: float) -> nn.Module:
        """A single linear layer, as in the paper for ListOps."""
        return Head(width, len(self.classes), layers=1, dropout=dropout)


def _example(tokens: tuple[str, ...]) -> Example:
    return Example((tokens,), evaluate(tokens))
