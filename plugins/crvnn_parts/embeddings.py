"""Embeddings: the initial vectors of tokens, random or pretrained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crvnn_core.annotations import CountOrZero, FilePath, Weight, check_ranges
from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.files import open_text
from crvnn_core.interfaces import Embedding

Vectors: TypeAlias = dict[str, NDArray[np.float32]]


class Random(Embedding):
    """Trainable vectors, initialised from a standard normal distribution, or from a uniform one.

    :param size: the size of a vector; 0 for the model's width.
    :param bound: draw uniformly from [-bound, bound]; 0 for the standard normal distribution.
    """

    @check_ranges
    def __init__(self, size: CountOrZero = 0, bound: Weight = 0.0) -> None:
        self.size, self.bound = size, bound

    def table(self, tokens: Sequence[str], width: int) -> tuple[Sequence[str], Tensor]:
        shape = len(tokens), self.size or width
        return tokens, torch.empty(shape).uniform_(-self.bound, self.bound) if self.bound else torch.randn(
            shape
        )


class Pretrained(Embedding):
    """Pretrained vectors; a subclass implements ``find``, which looks them up."""

    #: Messages about the table that was built last, such as how many tokens have a vector.
    notes: Sequence[str] = ()

    @check_ranges
    def __init__(self, source: str, trainable: bool, more: CountOrZero) -> None:
        self.source = source
        self.trainable = trainable
        self.more = more

    @abstractmethod
    def find(self, tokens: Collection[str]) -> tuple[Vectors, Vectors]:
        """The vectors of the tokens that have one, and those of ``more`` other words."""

    def table(self, tokens: Sequence[str], width: int) -> tuple[Sequence[str], Tensor]:
        asked, others = self.find(frozenset(tokens))
        if not asked:
            some = ", ".join(repr(token) for token in tokens[:5])
            raise CrvnnError(
                f"{self.source}: none of the task's {len(tokens):,} tokens has a vector here; they begin with {some}"
            )
        known = {token: asked[token] for token in tokens if token in asked}  # in the order of the task
        share = f"vectors for {len(known):,} of {len(tokens):,} tokens ({len(known) / len(tokens):.1%})"
        self.notes = [f"{self.source}: {share}" + (f", and {len(others):,} more words" if others else "")]
        rows = np.stack([*known.values(), *others.values()])
        return [*known, *others], torch.from_numpy(rows)


class GloVe(Pretrained):
    """Word vectors from a text file in GloVe's format: on each line a word and its numbers.

    A token without a vector gets the vector of the unknown token.

    :param path: of the file, plain, ``.gz`` or ``.zip``.
    :param trainable: whether the vectors are fine-tuned.
    :param more: how many words to add to the task's tokens, so that a trained model knows words that are not in the
        training data: the first in the file, which in published files are the most frequent.
    """

    def __init__(self, path: FilePath, trainable: bool = False, more: CountOrZero = 20_000) -> None:
        if not path:
            raise ValueError("path is empty; it must name a file of word vectors")
        self.path = Path(path).expanduser()
        super().__init__(self.path.name, trainable, more)

    def find(self, tokens: Collection[str]) -> tuple[Vectors, Vectors]:
        return read_vectors(self.path, tokens, self.more)


def read_vectors(path: Path, tokens: Collection[str], more: int) -> tuple[Vectors, Vectors]:
    """The vectors of the tokens that are in a file of GloVe's format, and those of the first ``more`` other words.

    If a word occurs twice, its first vector is used.
    """
    starts = {token.partition(" ")[0] for token in tokens}  # a few published words have spaces in them
    asked: Vectors = {}
    others: Vectors = {}
    for number, line, size in _lines(path):
        if len(others) == more and line[: line.find(" ")] not in starts:
            continue  # skipped unparsed, as most of millions of lines are
        word, *numbers = line.rstrip(" \r\n").rsplit(" ", size)
        word = word.strip(" ")
        found = asked if word in tokens else others
        if word and word not in found and (found is asked or len(others) < more):
            found[word] = _vector(numbers, size, f"{path}:{number}", line)
            if len(asked) == len(tokens) and len(others) == more:
                break
    return asked, others


def _lines(path: Path) -> Iterator[tuple[int, str, int]]:
    """Line number, line and vector size of each line of a file; ``InputError`` for a line with fewer numbers."""
    size = 0
    with open_text(
        path, newline="\n"
    ) as lines:  # a word may contain characters that Python takes for line ends
        for number, line in enumerate(lines, 1):
            if not size:
                size, header = _form(line, f"{path}:{number}")
                if header:
                    continue
            if line.count(" ") < size and line.strip():
                raise _malformed(f"{path}:{number}", line, size)
            yield number, line, size
    if not size:
        raise InputError(f"{path}: the file is empty; each line must have a word and its numbers")


def _form(line: str, where: str) -> tuple[int, bool]:
    """The vector size, and whether this first line is a word2vec header (number of words, vector size)."""
    parts = line.strip(" \r\n").split(" ")
    header = len(parts) == 2 and all(part.isdecimal() for part in parts)
    size = len(parts) - 1
    if header:
        size = int(parts[1]) if len(parts[1]) < 10 else 0
    if size < 1:
        raise InputError(
            f"{where}: expected a word and its numbers, with a space before each number; got {_short(line)}"
        )
    return size, header


def _vector(numbers: Sequence[str], size: int, where: str, line: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # gives inf, which is an error below
            vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise _malformed(where, line, size) from None
    if len(vector) != size or not np.isfinite(vector).all():
        raise _malformed(where, line, size)
    return vector


def _malformed(where: str, line: str, size: int) -> InputError:
    what = f"expected a word and finite numbers, {size} of them as the first line says"
    return InputError(f"{where}: {what}; got {_short(line)}")


def _short(line: str) -> str:
    line = line.rstrip("\r\n")
    return repr(line if len(line) <= 60 else f"{line[:40]} ... {line[-15:]}")
