"""Propositional inference: which of seven relations holds between two sentences (Bowman, Potts and Manning, 2015)."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Literal

from crvnn_core import Example, FilePath, InputError
from crvnn_core.annotations import Count, Range, check_ranges
from crvnn_core.trees import Tree
from crvnn_tasks.logic.language import (
    EVERYWHERE,
    MOST_OPERATIONS,
    RELATIONS,
    VOCABULARY,
    Pair,
    check_sentence,
    gold_tree,
    groups,
    operations,
    pairs,
    relation,
    renamed,
    row_text,
    tokenize,
    worlds,
)
from crvnn_tasks.rows import FileTask

# Patterns that sentences of the test split contain, and those of training never: a beginning, and an end behind it.
_PATTERNS = {
    "A": (re.compile(r"\( and \( not a \) \)"), ""),
    "B": (re.compile(r"\( and \( not "), " ) )"),
    "C": (re.compile(r"\( (and|or) \( not "), " ) )"),
}


def _contains(text: str, pattern: tuple[re.Pattern[str], str]) -> bool:
    begun = pattern[0].search(text)
    return begun is not None and text.find(pattern[1], begun.end()) >= 0


class Logic(FileTask):
    """Pairs such as ``( not b )`` and ``( b ( and d ) )``, generated as published or read from files.

    The classes are equivalence ``=``, forward and reverse entailment ``<`` and ``>``, negation ``^``, alternation
    ``|``, cover ``v`` and independence ``#``. The number of operations of a pair, by which results are reported,
    counts the ``and``, ``or`` and ``not`` of the sentence that has more of them; as in the published files, 12 stands
    for more than 12 as well. A hash of the text puts a tenth of the rows that qualify for
    training into the development split.

    :param directory: where the published files ``train0``, ``train1``, ... and ``test7``, ... are, plain or with
        ``.gz``; empty to generate pairs. In the setting ``length`` the test split is ``test7`` ... ``test12``, as in
        the paper; in the others it is a part of the pairs in ``train0`` ... ``train6``.
    :param setting: ``length``: test on more operations than were trained on. ``A``, ``B`` and ``C``: test on pairs
        with ``( and ( not a ) )``, ``( and ( not ... ) )`` and ``( and|or ( not ... ) )``, which training never sees.
    :param train_operations: the most operations of pairs to train on.
    :param rows: training pairs; ignored with ``directory``.
    :param held_out: pairs in each of the development and test splits; ignored with ``directory``. In the setting
        ``length`` the test pairs are spread evenly over the numbers of operations.
    :param fresh: generate new training pairs for every epoch, rather than reshuffle the same ones.
    :param rename: give other names to the variables of every training pair in each epoch, and exchange its sentences
        half of the time: data augmentation that keeps the relation, or reverses it. Not for ``A``, whose test pairs
        it would show.
    :param bad_rows: stop at a malformed row of a file, or skip it and report how many were skipped.
    """

    vocabulary = VOCABULARY
    classes = RELATIONS
    arity = 2
    structure_tokens = frozenset("()")
    source = "github.com/yikangshen/Ordered-Neurons; 'crvnn data get logic --dir DIR' downloads it"

    @check_ranges
    def __init__(
        self,
        directory: FilePath = "",
        setting: Literal["length", "A", "B", "C"] = "length",
        train_operations: Annotated[int, Range(ge=1, le=MOST_OPERATIONS)] = 6,
        rows: Count = 120_000,
        held_out: Count = 3000,
        fresh: bool = False,
        rename: bool = False,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        super().__init__(directory, bad_rows)
        most = MOST_OPERATIONS - (setting == "length")  # longer pairs must remain to test on
        if train_operations > most:
            raise ValueError(f"train_operations must be between 1 and {most}, not {train_operations}")
        if rename and setting == "A":
            raise ValueError(
                "rename must be false in setting A: with other names, training pairs have the pattern of the test pairs"
            )
        self.generated, self.setting, self.train_operations = not directory, setting, train_operations
        self.count, self.held_out, self.fresh, self.rename = rows, held_out, fresh, rename
        self.longer = range(train_operations + 1, MOST_OPERATIONS + 1)
        short = tuple(_names("train", number) for number in range(train_operations + 1))
        long = tuple(_names("test", number) for number in self.longer)
        self.files = {"train": short, "dev": short, "test": long if setting == "length" else short}

    def split_of(self, pair: Pair) -> str:
        """The split of a pair, by its text; empty if it belongs to none."""
        if operations(pair) > self.train_operations:
            return "test" if self.setting == "length" else ""
        return self._share(pair)

    def _share(self, pair: Pair) -> str:
        """The split of a pair that is short enough for training."""
        pattern = _PATTERNS.get(self.setting)
        if pattern and any(_contains(" ".join(sentence), pattern) for sentence in pair):
            return "test"
        return "train" if zlib.crc32(row_text(pair).encode()) % 10 else "dev"

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        return self._make(split, f"{split} {seed} 0") if self.generated else super().examples(split, seed)

    def epoch(self, seed: int, number: int) -> Iterable[Example]:
        new = self.generated and self.fresh
        found = self._make("train", f"train {seed} {number}") if new else super().epoch(seed, number)
        generator = random.Random(f"rename {seed} {number}")

        def other(example: Example) -> Example:
            label, pair = renamed(RELATIONS[example.label], example.sequences, generator)
            return Example(pair, RELATIONS.index(label))

        return map(other, found) if self.rename else found

    def _make(self, split: str, seed: str) -> Iterator[Example]:
        """Generate the distinct pairs of a split."""
        found = pairs(seed, lambda pair: self.split_of(pair) == split)
        if split == "test" and self.setting == "length":
            found = _evenly(found, self.longer, self.held_out)
        for label, pair in islice(found, self.count if split == "train" else self.held_out):
            yield Example(pair, RELATIONS.index(label))

    def holds(self, split: str, example: Example, place: int) -> bool:
        alone = split == "test" and self.setting == "length"
        return alone or self._share(example.sequences) == split

    def example_of(self, line: str, number: int) -> Example:
        """A relation and two sentences."""
        relation, *sentences = [cell.strip() for cell in line.strip("\r\n").split("\t")]
        if len(sentences) != 2:
            found = f"found {1 + len(sentences)}" if line.strip() else "the line is empty"
            raise ValueError(f"expected a relation and two sentences with tabs between them; {found}")
        if relation not in RELATIONS:
            raise ValueError(f"'{relation}' is no relation; the relations are {' '.join(RELATIONS)}")
        return Example(tuple(map(self.tokenize, sentences)), RELATIONS.index(relation))

    def bucket(self, example: Example) -> str:
        return str(operations(example.sequences))

    def gold(self, example: Example) -> tuple[Tree | None, ...]:
        """The trees of the parentheses, which are tokens too."""
        return tuple(map(gold_tree, example.sequences))

    def gold_label(self, sequences: tuple[tuple[str, ...], ...]) -> int | None:
        """The relation that the truth tables of both sentences have.

        ``None`` for texts that are no sentences, tautologies and contradictions, which have no relation.
        """
        try:
            left, right = map(worlds, sequences)
        except InputError:
            return None
        if {left, right} & {0, EVERYWHERE}:
            return None
        return RELATIONS.index(relation(left, right))

    def constituents(self, example: Example) -> tuple[frozenset[tuple[int, int]] | None, ...]:
        """The spans of all parentheses."""
        return tuple(map(groups, example.sequences))

    def tokenize(self, text: str) -> tuple[str, ...]:
        """The tokens of a user's text; ``InputError`` unless they are known and the parentheses balanced."""
        tokens = tokenize(text)
        check_sentence(tokens)
        return tokens


def _names(kind: str, number: int) -> tuple[str, ...]:
    return f"{kind}{number}", f"{kind}{number}.gz"


def _evenly(found: Iterator[tuple[str, Pair]], numbers: range, total: int) -> Iterator[tuple[str, Pair]]:
    """The first pairs of each number of operations, ``total`` in all and spread evenly."""
    missing = {number: (total + place) // len(numbers) for place, number in enumerate(reversed(numbers))}
    for label, pair in found:
        if missing[operations(pair)]:
            missing[operations(pair)] -= 1
            yield label, pair
            if not any(missing.values()):
                return
