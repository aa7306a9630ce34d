"""The language of ListOps: tokens, evaluation, spelling and gold trees of expressions. Does not import torch."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

from crvnn_core.errors import InputError, nearest
from crvnn_core.trees import Node, Tree


def _median(numbers: Sequence[int]) -> int:
    """The middle number; of two middle ones the mean, rounded down."""
    ordered, middle = sorted(numbers), len(numbers) // 2
    return ordered[middle] if len(numbers) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": _median,
    "[SM": lambda numbers: sum(numbers) % 10,
}
DIGITS = tuple("0123456789")
VOCABULARY = (*OPERATORS, "]", *DIGITS)


def evaluate(tokens: Sequence[str]) -> int:
    """The value of an expression; ``InputError`` names the first wrong token."""
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
            why = _misfit(token, stack[-1][0])
            raise InputError(f"token {place}, '{token}', does not fit: {_around(tokens, place)}\n  {why}")
    if len(stack) > 1 or len(stack[0][1]) != 1:
        shown = _around(tokens, len(tokens))
        raise InputError(f"this is not one whole expression: {shown}\n  {_unfinished(stack)}")
    return stack[0][1][0]


def _misfit(token: str, opened: str) -> str:
    """Why a token is not allowed here, inside the innermost open list."""
    if token == "]":
        return f"The list '{opened} ]' is empty." if opened else "There is no list that it could close."
    if token.isdecimal() and len(token) > 1:
        return f"Numbers have one digit each, as in '{' '.join(token)}'."
    return f"The tokens are {' '.join(OPERATORS)} ] and the digits.{nearest(token, VOCABULARY)}"


def _unfinished(stack: Sequence[tuple[str, list[int]]]) -> str:
    """What is missing or superfluous at the end of an expression."""
    if len(stack) > 1:
        missing = " ".join("]" * min(len(stack) - 1, 10))
        return f"'{stack[-1][0]}' is still open: '{missing}' is missing at the end."
    return f"There are {len(stack[0][1])} of them." if stack[0][1] else "It is empty."


def _around(tokens: Sequence[str], place: int, reach: int = 12) -> str:
    """The tokens near a place, counted from 1; all of them if they are few."""
    if len(tokens) <= 2 * reach:
        return " ".join(tokens)
    start, end = max(0, place - 1 - reach), place - 1 + reach
    before, after = "... " if start else "", " ..." if end < len(tokens) else ""
    return f"{before}{' '.join(tokens[start:end])}{after}"


_TOKEN = re.compile(r"\[\s*[^\s\[\]()]*|\]|[^\s\[\]()]+")


def tokenize(text: str) -> tuple[str, ...]:
    """The tokens of a text: spaces around brackets are optional, case is ignored, round parentheses are dropped."""
    return tuple("".join(token.split()).upper() for token in _TOKEN.findall(text))


def bracketed(tokens: Sequence[str]) -> str:
    """An expression with the round parentheses of the published files, a left-branching binary tree of each list."""
    written: list[str] = []
    begun: list[int] = []  # starts of the open lists
    for token in tokens:
        written.append(token)
        if token in OPERATORS:
            begun.append(len(written) - 1)
            continue
        if token == "]":
            start = begun.pop()
            written[start] = f"( {written[start]}"
            written.append(")")
        if begun:
            written[begun[-1]] = f"( {written[begun[-1]]}"
            written.append(")")
    return " ".join(written)


def gold_tree(tokens: Sequence[str]) -> Tree:
    """The tree of the published files: left-branching within a list."""
    nodes: list[Node] = []
    begun: list[int] = []  # starts of the open lists
    for place, token in enumerate(tokens):
        start = place
        if token == "]":
            start = begun.pop()
            nodes.append(Node(start, place, place + 1))
        if token in OPERATORS:
            begun.append(place)
        elif begun:
            nodes.append(Node(begun[-1], start, place + 1))
    return Tree(tokens, nodes)


def lists(tokens: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Start and end of each list: the constituents of every tree that evaluates the expression rightly."""
    found: list[tuple[int, int]] = []
    begun: list[int] = []
    for place, token in enumerate(tokens):
        if token in OPERATORS:
            begun.append(place)
        elif token == "]":
            found.append((begun.pop(), place + 1))
    return frozenset(found)


def split_of(tokens: Sequence[str]) -> str:
    """The split of a generated expression, by a hash of its text: 90% train, 5% dev, 5% test."""
    share = zlib.crc32(" ".join(tokens).encode()) % 20
    return {0: "dev", 1: "test"}.get(share, "train")
