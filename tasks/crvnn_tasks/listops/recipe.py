"""Generator of ListOps expressions, with the published parameters as defaults. Does not import torch.

Nangia and Bowman (2018): at a depth below 20, an operator with probability 0.25 and otherwise a digit; two to five
arguments; no duplicates.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from attrs import frozen

from crvnn_core.errors import CrvnnError
from crvnn_tasks.listops.language import DIGITS, OPERATORS, split_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

_NAMES = tuple(OPERATORS)
_ATTEMPTS = 200_000  # at a new expression before giving up
_SHORTEST = 4  # tokens of "[MAX 1 2 ]"
_LONGEST_MEAN = 1000  # expected tokens, above which single expressions could exhaust memory


@frozen(kw_only=True, slots=False)
class Recipe:
    """The parameters of the generator; ``max_tokens`` of 0 is no limit."""

    min_tokens: int = 0
    max_tokens: int = 0
    max_depth: int = 20
    operator_probability: float = 0.25
    min_arguments: int = 2
    max_arguments: int = 5
    min_depth: int = 0  # nested operators

    def __attrs_post_init__(self) -> None:
        depth, fewest, most = self.max_depth, self.min_arguments, self.max_arguments
        shortest, longest, chance = self.min_tokens, self.max_tokens, self.operator_probability
        at_depth = f"({depth}), at which all arguments are digits"
        for wrong, name, wanted in (
            (self.min_depth >= depth, "min_depth", f"less than max_depth {at_depth}"),
            (depth < 2, "max_depth", "at least 2"),
            (not 0 < chance < 1, "operator_probability", "between 0 and 1"),
            (fewest < 2, "min_arguments", "at least 2"),
            (most < fewest, "max_arguments", f"at least min_arguments ({fewest})"),
            (
                longest < 0 or 0 < longest < _SHORTEST,
                "max_tokens",
                f"0, or at least {_SHORTEST} ('[MAX 1 2 ]')",
            ),
            (
                not 0 <= shortest <= self._most,
                "min_tokens",
                f"0, or at most max_tokens ({longest or 'no limit'})",
            ),
        ):
            if wrong:
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)}")
        if not self.max_tokens and (mean := self.mean_tokens()) > _LONGEST_MEAN:
            raise ValueError(
                f"max_tokens must be given: with max_arguments = {self.max_arguments}, max_depth = {self.max_depth} "
                f"and operator_probability = {self.operator_probability}, expressions have some {mean:,.0f} tokens"
            )

    @property
    def _most(self) -> float:
        return self.max_tokens or math.inf

    def mean_tokens(self) -> float:
        """The expected length of an expression or single digit without a limit on it."""
        mean = 1.0
        for _ in range(self.max_depth - 1):
            below = 2 + mean * (self.min_arguments + self.max_arguments) / 2
            mean = 1 - self.operator_probability + self.operator_probability * below
            if mean > 1e9:  # large enough, and diverging
                break
        return mean

    def draw(self, generator: random.Random) -> list[str]:
        """Draw an expression or a single digit; the caller checks whether it is one that the recipe ``allows``."""
        if self.min_tokens > _SHORTEST and self.max_tokens:
            return self._lengths.draw(generator)
        # Only random() is used: Python guarantees that it alone stays the same between versions.
        chance, limit = generator.random, self._most
        choices = self.max_arguments - self.min_arguments + 1
        tokens: list[str] = []
        missing = [1]  # arguments still to come of each open list, outermost first
        while missing and len(tokens) <= limit:
            if missing[-1]:
                missing[-1] -= 1
                if len(missing) < self.max_depth and chance() < self.operator_probability:
                    tokens.append(_NAMES[int(chance() * len(_NAMES))])
                    missing.append(self.min_arguments + int(chance() * choices))
                else:
                    tokens.append(DIGITS[int(chance() * 10)])
            else:
                missing.pop()
                if missing:
                    tokens.append("]")
        return tokens

    def allows(self, tokens: Sequence[str]) -> bool:
        """Whether an expression is not too short, too long or too shallow."""
        fits = self.min_tokens <= len(tokens) <= self._most
        return fits and (not self.min_depth or depth(tokens) >= self.min_depth)

    @cached_property
    def _lengths(self) -> Lengths:
        return Lengths(self)


def depth(tokens: Sequence[str]) -> int:
    """The most operators of an expression that are nested."""
    most = open_ = 0
    for token in tokens:
        open_ += (token in OPERATORS) - (token == "]")
        most = max(most, open_)
    return most


class Lengths:
    """Samples expressions from the recipe's distribution conditioned on a range of lengths.

    Rejection sampling would take too long: of 100,000 expressions, about seven have 900 to 1000 tokens. The probability
    of every length is computed first, for every depth and number of arguments, by convolution; an expression is then
    sampled top-down, the length of each argument from these probabilities.
    """

    def __init__(self, recipe: Recipe) -> None:
        import numpy as np

        self.recipe = recipe
        size = recipe.max_tokens + 1
        depth = min(recipe.max_depth, size // 3 + 2)  # every level adds at least three tokens
        kinds = range(recipe.min_arguments, recipe.max_arguments + 1)
        one = np.zeros(size)
        one[1] = 1.0
        self.one: list[Array] = [one]  # by levels below it: the distribution of an argument's length
        self.many: list[list[Array]] = []  # by levels below and number: of several arguments' total length
        for _ in range(depth - 1):
            together = [np.eye(1, size)[0]]
            for _ in range(recipe.max_arguments):
                together.append(np.convolve(together[-1], one)[:size])
            one = np.zeros(size)
            one[1] = 1 - recipe.operator_probability
            for kind in kinds:
                one[2:] += recipe.operator_probability / len(kinds) * together[kind][:-2]
            self.many.append(together)
            self.one.append(one)
        self.wanted = one[recipe.min_tokens :].cumsum()
        if not self.wanted[-1] > 0:
            raise CrvnnError(
                f"no ListOps expression has {recipe.min_tokens} to {recipe.max_tokens} tokens with {kinds[0]} to "
                f"{kinds[-1]} arguments, max_depth = {recipe.max_depth} and operator_probability = "
                f"{recipe.operator_probability}"
            )

    def draw(self, generator: random.Random) -> list[str]:
        """Draw one expression."""
        tokens: list[str] = []
        length = self.recipe.min_tokens + _pick(self.wanted, generator)
        self._grow(length, len(self.many), tokens, generator)
        return tokens

    def _grow(self, length: int, levels: int, tokens: list[str], generator: random.Random) -> None:
        """Append an argument of this length with at most this many levels below it."""
        if length == 1:
            tokens.append(DIGITS[int(generator.random() * 10)])
            return
        tokens.append(_NAMES[int(generator.random() * len(_NAMES))])
        room, levels = length - 2, levels - 1
        for missing in range(self._count(room, levels, generator), 0, -1):
            part = self._part(room, missing, levels, generator) if missing > 1 else room
            self._grow(part, levels, tokens, generator)
            room -= part
        tokens.append("]")

    def _count(self, room: int, levels: int, generator: random.Random) -> int:
        """Draw the number of arguments, given their total length."""
        import numpy as np

        least = self.recipe.min_arguments
        return least + _pick(np.cumsum([chances[room] for chances in self.many[levels][least:]]), generator)

    def _part(self, room: int, missing: int, levels: int, generator: random.Random) -> int:
        """Draw the length of the next argument, given the total length and number of those that are missing."""
        one, all_, others = self.one[levels], self.many[levels][missing], self.many[levels][missing - 1]
        digit = generator.random() * all_[room] < one[1] * others[room - 1]
        if digit or room < _SHORTEST:
            return 1
        sums = (one[_SHORTEST : room + 1] * others[room - _SHORTEST :: -1]).cumsum()
        return _SHORTEST + _pick(sums, generator) if sums[-1] > 0 else 1


def _pick(sums: Array, generator: random.Random) -> int:
    """Draw an index by weights, given as their cumulative sums; never one of weight 0."""
    return int(sums.searchsorted(sums[-1] * (1 - generator.random())))


def expressions(recipe: Recipe, seed: str, split: str = "") -> Iterator[tuple[str, ...]]:
    """Distinct expressions, of one split or of any; ends after 200,000 attempts in a row without a new one."""
    generator = random.Random(seed)
    seen: set[bytes] = set()
    misses = 0
    while misses < _ATTEMPTS:
        misses += 1
        tokens = recipe.draw(generator)
        if not _fits(recipe, tokens) or not (tokens := _of_split(tokens, split, generator)):
            continue
        key = hashlib.blake2b(" ".join(tokens).encode(), digest_size=8).digest()
        if key not in seen:
            misses = 0
            seen.add(key)
            yield tuple(tokens)
    if not seen:
        lengths = f"at most {recipe.max_tokens}" if recipe.max_tokens else f"at least {recipe.min_tokens}"
        where = f" for '{split}'" if split else ""
        raise CrvnnError(
            f"{_ATTEMPTS:,} attempts made no ListOps expression of {lengths} tokens{where}; "
            f"operator_probability = {recipe.operator_probability} may be too small"
        )


def _fits(recipe: Recipe, tokens: Sequence[str]) -> bool:
    """Whether what was drawn is an expression, not a digit, that the recipe allows."""
    return len(tokens) > 1 and recipe.allows(tokens)


def _of_split(tokens: list[str], split: str, generator: random.Random) -> list[str]:
    """The tree with other operators and digits until it belongs to the split; nothing if it never does."""
    chance = generator.random
    for _ in range(100):  # one text in twenty is for testing, whatever the tree
        if not split or split_of(tokens) == split:
            return tokens
        tokens = [
            token
            if token == "]"
            else _NAMES[int(chance() * len(_NAMES))]
            if token in OPERATORS
            else DIGITS[int(chance() * 10)]
            for token in tokens
        ]
    return []


def expressions_again(recipe: Recipe, seed: str, split: str, count: int) -> Iterator[tuple[str, ...]]:
    """``count`` expressions: distinct ones while there are any, then with repetition."""
    made = 0
    for tokens in islice(expressions(recipe, seed, split), count):
        made += 1
        yield tokens
    generator = random.Random(f"{seed} again")
    while made < count:
        drawn = recipe.draw(generator)
        if _fits(recipe, drawn) and split_of(drawn) == split:
            made += 1
            yield tuple(drawn)
