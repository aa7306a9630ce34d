"""The Stanford Sentiment Treebank (tasks ``sst2`` and ``sst5``): sentences of film reviews with labelled phrases.

Reads one tree per line, as published in ``trainDevTestTrees_PTB.zip`` (Socher et al., 2013). Labels run from 0, very
negative, to 4, very positive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from attrs import evolve, frozen

from crvnn_core import Example, FilePath, InputError, InputRow
from crvnn_core.files import open_text
from crvnn_core.trees import Tree
from crvnn_tasks.rows import FileTask, Row, well_formed
from crvnn_tasks.tokenization import interned, words


@frozen
class Parse:
    """The words of a sentence, and its phrases as (start, end, grade from 0 to 4); the last phrase is the sentence."""

    words: tuple[str, ...]
    phrases: list[tuple[int, int, int]]


_PIECE = re.compile(r"[()]|[^\s()]+")


def read_tree(line: str) -> Parse:
    """Parse a published tree, ``(3 (2 not) (1 bad))``; ``ValueError`` if it is malformed."""
    phrases: list[tuple[int, int, int]] = []
    words: list[str] = []
    nodes: list[tuple[int, int]] = []  # not yet closed: first word, grade
    leaf = False  # whether the innermost open node is a leaf
    pieces = iter(_PIECE.findall(line))
    for piece in pieces:
        if phrases and not nodes:
            raise ValueError(f"'{piece}' comes after the end of the tree")
        if piece == "(":
            if leaf:
                raise ValueError(f"the word '{words[-1]}' needs a label of its own")
            label = next(pieces, "")
            if label not in ("0", "1", "2", "3", "4"):
                raise ValueError(f"after '(' comes a label from 0 to 4, not '{label}'")
            nodes.append((len(words), int(label)))
        elif not nodes:
            raise ValueError(f"a tree begins with '(', not with '{piece}'")
        elif piece == ")":
            first, grade = nodes.pop()
            if first == len(words):
                raise ValueError("there is a label without a text")
            phrases.append((first, len(words), grade))
            leaf = False
        else:
            if not leaf and nodes[-1][0] < len(words):
                raise ValueError(f"the word '{piece}' needs a label of its own")
            words.append(unescaped(piece))
            leaf = True
    if nodes:
        raise ValueError(f"the brackets are unbalanced: {len(nodes)} of them never close")
    return Parse(interned(words), phrases)


_ESCAPES = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}


def unescaped(word: str) -> str:
    """A word of the treebank, lower-cased and with brackets and slashes unescaped, as in GloVe."""
    word = word.lower()
    return _ESCAPES.get(word) or word.replace("\\/", "/").replace("\\*", "*")


_QUOTATION = re.compile(r"(?<!\w)\"(?=\w)")
_WHOLE = re.compile(
    r"(``|''|\.{2,}|-{2,}|(?<!\w)\w++(?:[-/]\w++)+)"
)  # in the treebank, 'must-see' is one word


class Sst(FileTask):
    """Sentences of film reviews from the labelled trees; the base class of ``Sst2`` and ``Sst5``."""

    files = {  # noqa: RUF012
        split: ((f"{split}.txt", f"{split}.txt.gz", f"trees/{split}.txt"),)
        for split in ("train", "dev", "test")
    }
    source = "nlp.stanford.edu/sentiment; 'crvnn data get sst --dir DIR' downloads it"
    #: The class of each grade from 0 to 4; ``None`` for one that is omitted.
    labels: Sequence[int | None]

    def __init__(
        self, directory: FilePath, phrases: bool = False, bad_rows: Literal["stop", "skip"] = "stop"
    ) -> None:
        super().__init__(directory, bad_rows)
        self.phrases = phrases
        self._lines: dict[tuple[str, ...], str] = {}  # published trees of whole sentences, by their words
        self._known: tuple[Sequence[str], frozenset[str]] = ((), frozenset())

    def parse(self, path: Path) -> Iterator[Row]:
        return self._rows(path, whole=True)

    def rows(self, split: str) -> Iterator[Row]:
        """The sentences of a split; with ``phrases`` every distinct training phrase, with its most frequent label.

        As published a phrase has one label; lower-casing makes a few phrases with different labels equal. Whole
        sentences of the other splits are not among them.
        """
        train, *others = self.files
        if split != train or not self.phrases:
            yield from super().rows(split)
            return
        known = [each for each in others if not self.why_missing(each)]
        held_out = {row.example.sequences for each in known for row in self.rows(each) if row.example}
        first: dict[tuple[tuple[str, ...], ...], Row] = {}
        labels: dict[tuple[tuple[str, ...], ...], Counter[int]] = {}
        for path in self.paths(train):
            for row in self._rows(path, whole=False):
                if row.example is None:
                    yield row
                elif row.example.sequences not in held_out:
                    first.setdefault(row.example.sequences, row)
                    labels.setdefault(row.example.sequences, Counter())[row.example.label] += 1
        for sequences, row in first.items():
            yield evolve(row, example=Example(sequences, labels[sequences].most_common(1)[0][0]))

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        if self.phrases and split == "train":
            return iter(self._training_phrases)
        return super().examples(split, seed)

    @cached_property
    def _training_phrases(self) -> list[Example]:
        return list(well_formed(self.rows("train"), self.paths("train")[0], self.bad_rows))

    def _rows(self, path: Path, whole: bool) -> Iterator[Row]:
        """A row for each sentence (``whole``), or for each phrase."""
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    tree = read_tree(line)
                except ValueError as error:
                    yield Row(path, number, fault=str(error))
                    continue
                if whole:
                    self._lines.setdefault(tree.words, line)
                for first, end, grade in tree.phrases[-1:] if whole else reversed(tree.phrases):
                    label = self.labels[grade]
                    if label is not None:
                        yield Row(path, number, Example((tree.words[first:end],), label))

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The sentences of labelled trees, whatever their labels; ``None`` if the first line is no tree."""
        with open_text(path) as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
        found = [self._sentence(number, line) for number, line in lines]
        return found if found and not found[0].fault else None

    def _sentence(self, number: int, line: str) -> InputRow:
        try:
            tree = read_tree(line)
        except ValueError as error:
            return InputRow(number, fault=str(error))
        label = self.labels[tree.phrases[-1][2]]
        gold = "" if label is None else self.classes[label]
        return InputRow(number, (" ".join(tree.words),), (tree.words,), gold)

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        """The published tree of a whole sentence; ``None`` if it is not binary, or the example is a phrase."""
        (tokens,) = example.sequences
        line = self._lines.get(tokens)
        if line is None:
            return (None,)
        try:
            return (Tree(tokens, Tree.read(line, "nltk").nodes),)
        except InputError:
            return (None,)

    def tokenize(self, text: str) -> tuple[str, ...]:
        """Words as in the treebank: a string between spaces that is in the vocabulary stays whole, others are split."""
        found: list[str] = []
        for chunk in text.replace("\u2019", "'").split():
            word = unescaped(chunk)
            found += [word] if self._knows(word) else _cut(word)
        return interned(found)

    def _knows(self, word: str) -> bool:
        if self._known[0] is not self.vocabulary:  # a loaded model replaces it
            self._known = self.vocabulary, frozenset(self.vocabulary)
        return word in self._known[1]


def _cut(chunk: str) -> Iterator[str]:
    """The words of a text without spaces, with quotation marks and dots as in the treebank."""
    chunk = _QUOTATION.sub("``", chunk).replace('"', "''")
    for part in _WHOLE.split(chunk):
        yield from ((part,) if _WHOLE.fullmatch(part) else words(part))


class Sst5(Sst):
    """Film reviews in five grades, from very negative to very positive.

    Words are lower-cased, and brackets and slashes are unescaped (not ``-LRB-`` and ``\\/``).

    :param directory: where ``train.txt``, ``dev.txt`` and ``test.txt`` are, one labelled tree per line.
    :param phrases: train on every phrase of the training sentences, single words included, each of them once.
        Whole sentences of the other splits are not among them.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    classes = ("very negative", "negative", "neutral", "positive", "very positive")
    labels = (0, 1, 2, 3, 4)


class Sst2(Sst):
    """Film reviews that are negative or positive; neutral ones are omitted.

    Words are lower-cased, and brackets and slashes are unescaped (not ``-LRB-`` and ``\\/``).

    :param directory: where ``train.txt``, ``dev.txt`` and ``test.txt`` are, one labelled tree per line.
    :param phrases: train on every phrase of the training sentences that is not neutral, single words included, each
        of them once. Whole sentences of the other splits are not among them.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    classes = ("negative", "positive")
    labels = (0, 0, None, 1, 1)
