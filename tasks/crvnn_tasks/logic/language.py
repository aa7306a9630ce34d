"""The language of propositional logic: sentences, their truth tables, gold trees, and the generator of pairs.

Generator (Bowman, Potts and Manning, 2015): a pair uses four of six variables. A part of a sentence is, with
probability 4/9 and at most three deep, two parts joined by ``and`` or ``or``, and otherwise a variable; with
probability 1/3 it is negated. No sentence is a tautology or a contradiction, and no pair occurs twice.
Does not import torch.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from crvnn_core.errors import CrvnnError, InputError, nearest
from crvnn_core.trees import Node, Tree

VARIABLES = tuple("abcdef")
OPERATORS = ("and", "or", "not")
VOCABULARY = ("(", ")", *OPERATORS, *VARIABLES)
#: Equivalence, forward and reverse entailment, negation, alternation, cover, independence.
RELATIONS = ("=", "<", ">", "^", "|", "v", "#")
#: The largest number of operations that is distinguished: it stands for more operations, too.
MOST_OPERATIONS = 12

Pair = tuple[tuple[str, ...], ...]

_JOINED = 4 / 9
_NEGATED = 1 / 3
_DEPTH = 3
_LEFT_OUT = 2  # of the variables
_ATTEMPTS = 200_000  # at a new pair before giving up

# A truth table is an integer with one bit for each of the 64 assignments of six variables (possible worlds).
_WORLDS = 2 ** len(VARIABLES)
EVERYWHERE = 2**_WORLDS - 1
_TRUE_IN = {
    name: sum(1 << world for world in range(_WORLDS) if world >> place & 1)
    for place, name in enumerate(VARIABLES)
}


def worlds(sentence: Sequence[str]) -> int:
    """The truth table of a sentence: the worlds in which it is true, as bits."""
    try:
        found, end = _worlds(sentence, 0)
    except (KeyError, IndexError):
        end = -1
    except RecursionError:
        raise InputError(
            "the parentheses of the sentence are nested too deeply, hundreds in one another"
        ) from None
    if end != len(sentence):
        raise InputError(
            f"this is not a sentence of variables, '( not x )', '( x ( and y ) )' and '( x ( or y ) )': "
            f"{' '.join(sentence)}"
        )
    return found


def _worlds(sentence: Sequence[str], place: int) -> tuple[int, int]:
    """The truth table of the subformula that begins at a place, and where it ends."""
    if sentence[place] != "(":
        return _TRUE_IN[sentence[place]], place + 1
    if sentence[place + 1] == "not":
        found, place = _worlds(sentence, place + 2)
        return EVERYWHERE & ~found, _closed(sentence, place)
    left, place = _worlds(sentence, place + 1)
    operator = {"( and": int.__and__, "( or": int.__or__}[" ".join(sentence[place : place + 2])]
    right, place = _worlds(sentence, place + 2)
    return operator(left, right), _closed(sentence, _closed(sentence, place))


def _closed(sentence: Sequence[str], place: int) -> int:
    """The place after a closing parenthesis."""
    if sentence[place] != ")":
        raise KeyError(sentence[place])
    return place + 1


def relation(left: int, right: int) -> str:
    """The natural-logic relation of two truth tables, neither a tautology nor a contradiction."""
    if left == right:
        return "="
    apart, everything = not left & right, left | right == EVERYWHERE
    if apart:
        return "^" if everything else "|"
    if left | right == right:
        return "<"
    if left | right == left:
        return ">"
    return "v" if everything else "#"


def operations(pair: Sequence[Sequence[str]]) -> int:
    """The ``and``, ``or`` and ``not`` of the sentence that has more of them; 12 also stands for more than 12."""
    return min(MOST_OPERATIONS, max(sum(token in OPERATORS for token in sentence) for sentence in pair))


def tokenize(text: str) -> tuple[str, ...]:
    """The tokens of a text; spaces around parentheses are optional."""
    return tuple(text.lower().replace("(", " ( ").replace(")", " ) ").split())


def check_sentence(tokens: Sequence[str]) -> None:
    """``InputError`` unless all tokens are known and the parentheses balanced."""
    if not tokens:
        raise InputError("the sentence is empty")
    opened, text = 0, " ".join(tokens)
    for place, token in enumerate(tokens, 1):
        if token not in VOCABULARY:
            raise InputError(
                f"token {place}, '{token}', is unknown: {text}\n"
                f"  The tokens are {' '.join(VOCABULARY)}.{nearest(token, VOCABULARY)}"
            )
        opened += {"(": 1, ")": -1}.get(token, 0)
        if opened < 0:
            raise InputError(f"token {place}, ')', closes nothing: {text}")
        if token == ")" and tokens[place - 2] == "(":
            raise InputError(f"token {place}, ')', closes empty parentheses: {text}")
    if opened:
        raise InputError(f"'{' '.join(')' * min(opened, 10))}' is missing at the end: {text}")


def gold_tree(tokens: Sequence[str]) -> Tree:
    """The tree of the parentheses: the parts between two of them join, then the opening one, then the closing one.

    Published sentences have two parts between every two parentheses; of more, each joins all that is before it.
    """
    nodes: list[Node] = []
    opened: list[list[int]] = [[]]  # where the parts begin, of all together and of each open parenthesis
    for place, token in enumerate(tokens):
        if token == "(":
            opened.append([place])
        elif token == ")":
            (start, *parts) = opened.pop()
            _join(nodes, parts, place)
            nodes += Node(start, parts[0], place), Node(start, place, place + 1)
            opened[-1].append(start)
        else:
            opened[-1].append(place)
    _join(nodes, opened[0], len(tokens))
    return Tree(tokens, nodes)


def _join(nodes: list[Node], parts: Sequence[int], end: int) -> None:
    """Join parts that begin at these places, from left to right."""
    for split, behind in pairwise([*parts[1:], end]):
        nodes.append(Node(parts[0], split, behind))


def groups(tokens: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Start and end of each pair of parentheses: the constituents of every tree that respects them."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token == "(":
            opened.append(place)
        elif token == ")":
            found.append((opened.pop(), place + 1))
    return frozenset(found)


def pairs(seed: str, wanted: Callable[[Pair], bool]) -> Iterator[tuple[str, Pair]]:
    """Distinct pairs of sentences with their relation; ends after 200,000 attempts in a row without a new one."""
    generator = random.Random(seed)
    seen: set[bytes] = set()
    misses = 0
    while misses < _ATTEMPTS:
        misses += 1
        pair = _draw(generator)
        if not wanted(pair):
            continue
        left, right = map(worlds, pair)
        if {left, right} & {0, EVERYWHERE}:
            continue
        key = hashlib.blake2b(row_text(pair).encode(), digest_size=8).digest()
        if key not in seen:
            misses = 0
            seen.add(key)
            yield relation(left, right), pair
    if not seen:
        raise CrvnnError(f"{_ATTEMPTS:,} attempts gave no pair of sentences of this kind")


def row_text(pair: Pair) -> str:
    """A pair as the published files write it, without its relation."""
    return "\t".join(map(" ".join, pair))


_REVERSED = dict(zip(RELATIONS, ("=", ">", "<", "^", "|", "v", "#"), strict=True))


def renamed(label: str, pair: Pair, generator: random.Random) -> tuple[str, Pair]:
    """Other sentences of the same relation: variables renamed at random, the two exchanged half of the time."""
    names = dict(zip(VARIABLES, generator.sample(VARIABLES, len(VARIABLES)), strict=True))
    found = tuple(tuple(names.get(token, token) for token in sentence) for sentence in pair)
    return (label, found) if generator.random() < 0.5 else (_REVERSED[label], found[::-1])


def _draw(generator: random.Random) -> Pair:
    """Draw two sentences of the same four variables."""
    # Only random() is used: Python guarantees that it alone stays the same between versions.
    names = list(VARIABLES)
    for _ in range(_LEFT_OUT):
        del names[int(generator.random() * len(names))]
    left: list[str] = []
    right: list[str] = []
    _grow(left, names, generator.random, _DEPTH)
    _grow(right, names, generator.random, _DEPTH)
    return tuple(left), tuple(right)


def _grow(tokens: list[str], names: Sequence[str], chance: Callable[[], float], depth: int) -> None:
    """Append a subformula in which ``and`` and ``or`` nest at most ``depth`` deep."""
    negated = chance() < _NEGATED
    if negated:
        tokens += "(", "not"
    if depth and chance() < _JOINED:
        tokens.append("(")
        _grow(tokens, names, chance, depth - 1)
        tokens += "(", OPERATORS[int(chance() * 2)]
        _grow(tokens, names, chance, depth - 1)
        tokens += ")", ")"
    else:
        tokens.append(names[int(chance() * len(names))])
    if negated:
        tokens.append(")")
