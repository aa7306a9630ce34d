"""ListOps expressions by the published recipe, and by others like it. Nothing here needs torch.

The recipe (Nangia and Bowman, 2018): at a depth below 20, an operator with probability 0.25 and otherwise a digit;
two to five arguments; no expression twice.
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
_PATIENCE = 200_000  # attempts at a new expression before giving up
_SHORTEST = 4  # tokens of "[MAX 1 2 ]"
_LONGEST_MEAN = 1000  # tokens on average, beyond which some expressions would fill the memory


@frozen(kw_only=True, slots=False)
class Recipe:
    """How expressions are made; the defaults are the published ones. 0 tokens are no limit."""

    min_tokens: int = 0
    max_tokens: int = 0
    max_depth: int = 20
    operator_probability: float = 0.25
    min_arguments: int = 2
    max_arguments: int = 5

    def __attrs_post_init__(self) -> None:
        _check_shape(self)
        if self.max_tokens < 0 or 0 < self.max_tokens < _SHORTEST:
            raise ValueError(
                f"max_tokens must be 0, or at least {_SHORTEST} ('[MAX 1 2 ]'), not {self.max_tokens}"
            )
        if not 0 <= self.min_tokens <= self._most:
            raise ValueError(
                f"min_tokens must be 0, or at most max_tokens ({self.max_tokens or 'no limit'}), "
                f"not {self.min_tokens}"
            )
        if not self.max_tokens and (mean := self.mean_tokens()) > _LONGEST_MEAN:
            raise ValueError(
                f"max_tokens must be given: with max_arguments = {self.max_arguments}, max_depth = {self.max_depth} "
                f"and operator_probability = {self.operator_probability}, expressions have some {mean:,.0f} tokens"
            )

    @property
    def _most(self) -> float:
        return self.max_tokens or math.inf

    def mean_tokens(self) -> float:
        """What an expression has on average, single digits included, were its length not limited."""
        mean = 1.0
        for _ in range(self.max_depth - 1):
            below = 2 + mean * (self.min_arguments + self.max_arguments) / 2
            mean = 1 - self.operator_probability + self.operator_probability * below
            if mean > 1e9:  # useless already, and on its way to infinity
                break
        return mean

    def draw(self, generator: random.Random) -> list[str]:
        """One expression or a single digit, which ``fits`` or not."""
        if self.min_tokens > _SHORTEST and self.max_tokens:
            return self._lengths.draw(generator)
        # Nothing but random() is used: it alone is promised to stay the same in later versions of Python.
        chance, limit = generator.random, self._most
        choices = self.max_arguments - self.min_arguments + 1
        tokens: list[str] = []
        missing = [1]  # arguments of every list that is open, from the outermost
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

    def fits(self, tokens: Sequence[str]) -> bool:
        """Whether this is an expression, and of a length that is wanted."""
        return len(tokens) > 1 and self.spans(len(tokens))

    def spans(self, length: int) -> bool:
        """Whether a length is wanted."""
        return self.min_tokens <= length <= self._most

    @cached_property
    def _lengths(self) -> Lengths:
        return Lengths(self)


def _check_shape(recipe: Recipe) -> None:
    """Refuse settings that make no trees."""
    if recipe.max_depth < 2:
        raise ValueError(f"max_depth must be at least 2, not {recipe.max_depth}")
    if not 0 < recipe.operator_probability < 1:
        raise ValueError(f"operator_probability must be between 0 and 1, not {recipe.operator_probability}")
    if recipe.min_arguments < 2:
        raise ValueError(f"min_arguments must be at least 2, not {recipe.min_arguments}")
    if recipe.max_arguments < recipe.min_arguments:
        raise ValueError(
            f"max_arguments must be at least min_arguments ({recipe.min_arguments}), not {recipe.max_arguments}"
        )


class Lengths:
    """Makes expressions of a range of lengths, each as likely as the recipe has it among all of that range.

    Waiting for long ones would take too long: of 100,000, about seven have 900 to 1000 tokens. So the chance of
    every length is computed first, for every depth and number of arguments, and an expression is grown from its
    outermost list inwards, each part with a length drawn by these chances.
    """

    def __init__(self, recipe: Recipe) -> None:
        import numpy as np

        self.recipe = recipe
        size = recipe.max_tokens + 1
        depth = min(recipe.max_depth, size // 3 + 2)  # every level takes three tokens at least
        kinds = range(recipe.min_arguments, recipe.max_arguments + 1)
        one = np.zeros(size)
        one[1] = 1.0
        self.one: list[Array] = [one]  # by levels below it: the chances of an argument's length
        self.many: list[list[Array]] = []  # by levels below and number: of several arguments' length together
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
        """One expression."""
        tokens: list[str] = []
        length = self.recipe.min_tokens + _pick(self.wanted, generator)
        self._grow(length, len(self.many), tokens, generator)
        return tokens

    def _grow(self, length: int, levels: int, tokens: list[str], generator: random.Random) -> None:
        """Append an argument of this length, with at most so many levels below it."""
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
        """How many arguments share the room."""
        import numpy as np

        least = self.recipe.min_arguments
        return least + _pick(np.cumsum([chances[room] for chances in self.many[levels][least:]]), generator)

    def _part(self, room: int, missing: int, levels: int, generator: random.Random) -> int:
        """How much of the room the first of the missing arguments takes."""
        one, all_, others = self.one[levels], self.many[levels][missing], self.many[levels][missing - 1]
        digit = generator.random() * all_[room] < one[1] * others[room - 1]
        if digit or room < _SHORTEST:
            return 1
        sums = (one[_SHORTEST : room + 1] * others[room - _SHORTEST :: -1]).cumsum()
        return _SHORTEST + _pick(sums, generator) if sums[-1] > 0 else 1


def _pick(sums: Array, generator: random.Random) -> int:
    """A place, drawn by weights of which these are the running sums; never one without weight."""
    return int(sums.searchsorted(sums[-1] * (1 - generator.random())))


def expressions(recipe: Recipe, seed: str, split: str = "") -> Iterator[tuple[str, ...]]:
    """Different expressions, of one split or of any; they end when many attempts in a row gave nothing new."""
    generator = random.Random(seed)
    seen: set[bytes] = set()
    misses = 0
    while misses < _PATIENCE:
        misses += 1
        tokens = recipe.draw(generator)
        if not recipe.fits(tokens) or not (tokens := _of_split(tokens, split, generator)):
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
            f"{_PATIENCE:,} attempts made no ListOps expression of {lengths} tokens{where}; "
            f"operator_probability = {recipe.operator_probability} may be too small"
        )


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
    """So many expressions: different ones while there are any, and then the same ones as they come."""
    made = 0
    for tokens in islice(expressions(recipe, seed, split), count):
        made += 1
        yield tokens
    generator = random.Random(f"{seed} again")
    while made < count:
        drawn = recipe.draw(generator)
        if recipe.fits(drawn) and split_of(drawn) == split:
            made += 1
            yield tuple(drawn)
