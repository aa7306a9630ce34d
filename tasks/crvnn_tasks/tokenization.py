"""Tokens of a text, and the vocabulary of a set of examples."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Literal

from crvnn_core import Example, InputError

#: What a token is: words and punctuation marks, substrings between spaces, or single characters other than spaces.
TokenKind = Literal["words", "spaces", "characters"]


def vocabulary_of(examples: Iterable[Example], min_count: int = 1) -> tuple[str, ...]:
    """Tokens that occur ``min_count`` times or more, by descending frequency and then alphabetically.

    If there are none, ``InputError``.
    """
    counts = Counter(token for example in examples for sequence in example.sequences for token in sequence)
    known = [token for token, count in counts.items() if count >= min_count]
    if not known:
        raise InputError(f"no token occurs {min_count} times in the training split (min_count)")
    return tuple(sorted(known, key=lambda token: (-counts[token], token)))


def split_tokens(text: str, kind: TokenKind, lower: bool) -> tuple[str, ...]:
    """The tokens of a text.

    :param lower: in lower case.
    """
    if kind == "words":
        return words(text, lower)
    text = text.lower() if lower else text
    return interned(text.split() if kind == "spaces" else "".join(text.split()))


def interned(tokens: Iterable[str]) -> tuple[str, ...]:
    """The tokens as a tuple of interned strings, so that millions of rows fit in memory."""
    return tuple(map(sys.intern, tokens))


def words(text: str, lower: bool = True) -> tuple[str, ...]:
    """Words, numbers and punctuation marks, split as in GloVe's corpora (Penn Treebank): ``don't`` is ``do n't``.

    A hyphen is a token of its own, a number keeps its points and commas (``1,000.5``), and typographic apostrophes
    become plain ones. Scripts without spaces between words are not segmented.
    """
    text = text.lower() if lower else text
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).replace("\u2019", "'").replace(_SOFT_HYPHEN, "")
    found = _pattern(text.isascii()).findall(text)
    return interned(part for word in found for part in (_parts(word) if "'" in word else (word,)))


_SOFT_HYPHEN = "\u00ad"
_JOINERS = "\u200c\u200d"
_ENDINGS = ("n't", "'s", "'m", "'d", "'re", "'ve", "'ll")


def _parts(word: str) -> list[str]:
    """A word and its clitics: ``should``, ``n't`` and ``'ve`` of ``shouldn't've``."""
    endings: list[str] = []
    rest = len(word)  # how much of it is left: at least one character
    while cut := next(
        (len(end) for end in _ENDINGS if word[max(1, rest - len(end)) : rest].lower() == end), 0
    ):
        endings.append(word[rest - cut : rest])
        rest -= cut
    return [word[:rest], *reversed(endings)]


@cache
def _marks() -> str:
    """Combining marks (vowel signs, accents), which do not match ``\\w``."""
    codes = (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))
    return "".join(chr(code) for code in codes if unicodedata.category(chr(code)).startswith("M"))


@cache
def _pattern(ascii_only: bool) -> re.Pattern[str]:
    letter = r"\w" if ascii_only else rf"[\w{_marks()}{_JOINERS}]"
    return re.compile(
        r"\d+(?:[.,]\d+)+"  # a number
        rf"|{letter}+(?:'{letter}+)*"  # a word, which may be o'clock
        rf"|'(?:s|m|d|re|ve|ll)(?!{letter})"  # a clitic that is written apart
        r"|[^\w\s]",
        re.IGNORECASE,
    )
