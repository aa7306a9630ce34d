"""ListOps: nested list operations on digits, whose answer is a digit.

The published generator's settings are the defaults: at a depth below 20, an operator with probability 0.25
and otherwise a digit; two to five arguments (Nangia and Bowman, 2018).
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from torch import nn

from crvnn_core import CrvnnError, Example, Head, InputError, Task

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda numbers: _median(numbers),
    "[SM": lambda numbers: sum(numbers) % 10,
}
DIGITS = tuple("0123456789")
_PATIENCE = 200_000  # attempts at a new expression before giving up


def _median(numbers: Sequence[int]) -> int:
    """The middle number; of two middle ones the mean, rounded down."""
    ordered, middle = sorted(numbers), len(numbers) // 2
    return ordered[middle] if len(numbers) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def evaluate(tokens: Sequence[str]) -> int:
    """The answer to an expression; an error that says which token is wrong."""
    stack: list[tuple[str, list[int]]] = [("", [])]
    for place, token in enumerate(tokens, 1):
        if token in OPERATORS:
            stack.append((token, []))
        elif token in DIGITS:
            stack[-1][1].append(int(token))
        elif token == "]" and len(stack) > 1 and stack[-1][1]:
            operator, numbers = stack.pop()
            stack[-1][1].append(OPERATORS[operator](numbers))
        else:
            raise InputError(f"token {place}, '{token}', does not fit: {' '.join(tokens)}")
    if len(stack) > 1 or len(stack[0][1]) != 1:
        raise InputError(f"this is not one whole expression: {' '.join(tokens)}")
    return stack[0][1][0]


class ListOps(Task):
    """Freshly generated ListOps expressions, every one of them new.

    :param max_tokens: longer expressions are left out; 0 for no limit.
    :param max_depth: from this depth on there are only digits.
    :param operator_probability: of an operator where a digit could stand.
    :param max_arguments: of an operator, which has at least two.
    :param held_out: expressions in each of the development and test splits.
    """

    vocabulary = (*OPERATORS, "]", *DIGITS)
    classes = DIGITS

    def __init__(
        self,
        max_tokens: int = 100,
        max_depth: int = 20,
        operator_probability: float = 0.25,
        max_arguments: int = 5,
        held_out: int = 1000,
    ) -> None:
        if max_tokens < 0 or 0 < max_tokens < 4:
            raise ValueError(f"max_tokens must be 0, or at least 4 ('[MAX 1 2 ]'), not {max_tokens}")
        if max_arguments < 2 or max_depth < 2 or held_out < 1 or not 0 < operator_probability < 1:
            raise ValueError(
                "max_arguments and max_depth must be at least 2, held_out at least 1, "
                "and operator_probability between 0 and 1"
            )
        self.max_tokens, self.max_depth = max_tokens, max_depth
        self.operator_probability, self.max_arguments = operator_probability, max_arguments
        self.held_out = held_out

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        found = self._unique(split, random.Random(f"{split} {seed}"))
        return found if split == "train" else islice(found, self.held_out)

    def head(self, width: int, dropout: float) -> nn.Module:
        """A single layer, as the paper has for ListOps."""
        return Head(width, len(self.classes), layers=1, dropout=dropout)

    def _unique(self, split: str, generator: random.Random) -> Iterator[Example]:
        """New expressions; when there are no more, training goes round again and the other splits end."""
        seen: set[bytes] = set()
        misses = 0
        while misses < _PATIENCE or (seen and split == "train"):
            tokens = self._expression(generator)
            key = hashlib.blake2b(" ".join(tokens).encode(), digest_size=8).digest()
            if len(tokens) > 1 and key not in seen and split_of(tokens) == split:
                misses = 0
                seen.add(key)
                yield Example((tokens,), evaluate(tokens))
            elif (misses := misses + 1) == _PATIENCE and split == "train" and seen:
                misses = 0
                seen.clear()
        if not seen:
            raise CrvnnError(
                f"task 'listops': {_PATIENCE:,} attempts made no expression for '{split}' of at most {self.max_tokens} "
                f"tokens; an operator_probability of {self.operator_probability} may be too small"
            )

    def _expression(self, generator: random.Random) -> tuple[str, ...]:
        """One expression; nothing if it grew beyond the limit."""
        tokens: list[str] = []
        fits = self._grow(tokens, generator, depth=1)
        return tuple(tokens) if fits else ()

    def _grow(self, tokens: list[str], generator: random.Random, depth: int) -> bool:
        """Append an argument, and tell whether there is still room."""
        if depth >= self.max_depth or generator.random() >= self.operator_probability:
            tokens.append(str(generator.randrange(10)))
        else:
            tokens.append(generator.choice(list(OPERATORS)))
            for _ in range(generator.randint(2, self.max_arguments)):
                if not self._grow(tokens, generator, depth + 1):
                    return False
            tokens.append("]")
        return not self.max_tokens or len(tokens) <= self.max_tokens


def split_of(tokens: Sequence[str]) -> str:
    """Which split an expression belongs to: its own text decides, so no split ever meets another's."""
    share = zlib.crc32(" ".join(tokens).encode()) % 20
    return {0: "dev", 1: "test"}.get(share, "train")
