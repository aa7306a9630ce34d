"""The task ``in-memory``: texts and labels that a program has, not a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any

from attrs import evolve, frozen

from crvnn_core import Component, CrvnnError, Example, InputError, Task
from crvnn_core.annotations import Count, Range, check_ranges
from crvnn_core.errors import nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec.layers import plain_value
from crvnn_tasks.from_file.task import FromFile
from crvnn_tasks.labelled import Sequences, held_out, refuse_numbers, sorted_labels
from crvnn_tasks.rows import listed
from crvnn_tasks.tokenization import TokenKind, split_tokens, vocabulary_of

NAME = "in-memory"
_ABSENT = (
    "the rows of the task 'in-memory' are given in Python and are in no run directory: crvnn.train(spec, texts=..., "
    "labels=...) trains on rows, and crvnn.resume(run, texts=..., labels=...) continues a run with the same rows. "
    "The task 'from-file' reads a file."
)


@frozen
class Row:
    """One text, or the two of a pair, and a label."""

    texts: tuple[str, ...]
    label: str


class InMemory(Task):
    """Texts (or pairs of them) and labels, given to ``crvnn.train`` in Python.

    The classes are the labels of the training rows. A run directory does not hold the rows: a trained model predicts
    without them, but a run cannot be resumed. ``crvnn eval --data`` reads a file with the columns ``text`` and
    ``label``; for pairs ``text_a``, ``text_b`` and ``label``.

    :param tokens: what a token is: words and punctuation marks, substrings between spaces, or single characters other
        than spaces.
    :param lower: convert texts to lower case.
    :param min_count: tokens that are rarer than this in the training split share the unknown token's vector.
    :param dev_share: the share of the distinct training texts that is held out for development if no development rows
        are given; at least one text. 0 for no development split.
    :param pairs: whether each row has two texts; filled in by ``crvnn.train``.
    :param checksum: of the rows; filled in by ``crvnn.train``, so that a run is resumed with the same rows.
    """

    development_advice = (
        "give development rows (dev=...), hold out more texts (task.dev_share), or none (task.dev_share=0, which "
        "keeps the last weights)"
    )

    @check_ranges
    def __init__(
        self,
        tokens: TokenKind = "words",
        lower: bool = True,
        min_count: Count = 1,
        dev_share: Annotated[float, Range(ge=0, lt=1)] = 0.1,
        pairs: bool = False,
        checksum: str = "",
    ) -> None:
        self.tokens, self.lower, self.min_count, self.dev_share = tokens, lower, min_count, dev_share
        self.arity, self.checksum = 2 if pairs else 1, checksum
        self._rows: Mapping[str, Sequence[Row]] = {}
        self.splits: Sequence[str] = ("train", "dev")

    def give(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Take the rows, by split; an error if they are others than those of the spec's checksum."""
        if self.checksum and self.checksum != checksum(rows):
            raise InputError(
                "these are not the rows that the run was started with: give the same texts and labels in the same "
                "order, the development and test rows too; or start a new run"
            )
        self._rows = rows
        given = [split for split in ("train", "dev", "test") if split in rows]
        self.splits = tuple(["train", "dev", *given[1:]] if self._holds_out else given)

    @property
    def _holds_out(self) -> bool:
        """Whether the development split is a part of the training rows."""
        return "dev" not in self._rows and self.dev_share > 0

    @cached_property
    def classes(self) -> Sequence[str]:  # type: ignore[override]
        """The labels of the training rows, sorted as numbers if all of them are, otherwise as text."""
        labels = {row.label for row in self._of("train")}
        if len(labels) < 2:
            raise InputError(f"the labels are all '{next(iter(labels))}'; at least two classes are needed")
        return sorted_labels(labels)

    @cached_property
    def vocabulary(self) -> Sequence[str]:  # type: ignore[override]
        """The tokens that occur ``min_count`` times or more in the training split, by descending frequency."""
        return vocabulary_of(self.examples("train", 0), self.min_count)

    def tokenize(self, text: str) -> tuple[str, ...]:
        return split_tokens(text, self.tokens, self.lower)

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        if not self._holds_out or split == "test":
            return self._examples(split)
        train = self._examples("train")
        return (example for example in train if (example.sequences in self._dev) == (split == "dev"))

    def read(self, path: Path) -> Iterator[Example]:
        columns = ["text"] if self.arity == 1 else ["text_a", "text_b"]
        reader = FromFile(str(path), text=columns, dev_share=0, tokens=self.tokens, lower=self.lower)
        reader.classes = self.classes
        return reader.read(path)

    def _of(self, split: str) -> Sequence[Row]:
        if not self._rows:
            raise CrvnnError(_ABSENT)
        return self._rows[split]

    def _examples(self, split: str) -> Iterator[Example]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        for number, row in enumerate(self._of(split), 1):
            sequences = tuple(map(self.tokenize, row.texts))
            if not all(sequences):
                raise InputError(f"{_named(split)}text {number} has no token: {row.texts!r}")
            if row.label not in numbers:
                known = f"is not one of the training labels: {listed(self.classes)}."
                guess = nearest(row.label, self.classes)
                raise InputError(f"{_named(split)}label {number}, '{row.label}', {known}{guess}")
            yield Example(sequences, numbers[row.label])

    @cached_property
    def _dev(self) -> frozenset[Sequences]:
        found = held_out((example.sequences for example in self._examples("train")), self.dev_share)
        if not found:
            raise InputError(
                "there are too few distinct texts to hold some out for development; give development rows "
                "(dev=...), or turn holding out off (task.dev_share=0)"
            )
        return found


def read_rows(texts: Iterable[Any], labels: Iterable[Any], split: str = "train") -> tuple[Row, ...]:
    """Texts and labels as rows; an error that names the first ones that are wrong, and how many are.

    :param texts: texts, or pairs of texts; also a pandas Series or DataFrame, an array, a column of a dataset.
    :param labels: one for each: texts, or anything that is the same whenever its text is. Of the training split not
        numbers that nearly all differ: these are no classes.
    :param split: for messages.
    """
    where = _named(split)
    if isinstance(texts, (str, bytes)) or isinstance(labels, (str, bytes)):
        raise InputError(f"{where}texts and labels are lists, one label for each text")
    columns = getattr(
        texts, "columns", None
    )  # of a pandas DataFrame, which would give the names of its columns
    given = list(texts.itertuples(index=False, name=None) if columns is not None else texts)  # type: ignore[attr-defined]
    named = [plain_value(label) for label in labels]
    if len(given) != len(named):
        raise InputError(f"{where}there are {len(given):,} texts and {len(named):,} labels")
    if not given:
        raise InputError(f"{where}there are no texts")
    found = [tuple(text) if isinstance(text, (tuple, list)) else (text,) for text in map(plain_value, given)]
    arity = len(found[0])
    faults = [
        f"text {number} is {given[number - 1]!r}"
        for number, parts in enumerate(found, 1)
        if len(parts) != arity or not all(isinstance(part, str) for part in parts)
    ]
    if faults or arity not in (1, 2):
        kinds = "every row has one text, or every row a pair of texts"
        raise InputError(f"{where}{kinds}, but {listed(faults or ['text 1 has ' + str(arity)], 3)}")
    faults = [f"label {number} is {label!r}" for number, label in enumerate(named, 1) if _missing(label)]
    if faults:
        raise InputError(f"{where}every text needs a label, but {listed(faults, 3)}")
    if split == "train" and all(isinstance(label, (int, float)) for label in named):
        remedy = "strings: [str(label) for label in labels]"
        refuse_numbers("the labels are", len(set(named)), len(named), remedy)
    by_text: dict[str, Any] = {}
    for label in named:
        other = by_text.setdefault(str(label), label)
        if other != label:
            raise InputError(f"{where}the labels {other!r} and {label!r} have the same text")
    return tuple(Row(parts, str(label)) for parts, label in zip(found, named, strict=True))


def catalog_with_rows(catalog: Catalog, rows: Mapping[str, Sequence[Row]]) -> Catalog:
    """The same catalog, in which the task ``in-memory`` has these rows."""

    @wraps(InMemory)
    def build(**settings: Any) -> InMemory:
        task = InMemory(**settings)
        task.give(rows)
        return task

    tasks = catalog.components["task"]
    offer = tasks[NAME]
    given = evolve(offer, component=Component(NAME, build, summary=offer.component.summary))
    return evolve(catalog, components={**catalog.components, "task": {**tasks, NAME: given}})


def checksum(rows: Mapping[str, Sequence[Row]]) -> str:
    """A hash of all rows in their order."""
    content = {split: [[*row.texts, row.label] for row in given] for split, given in sorted(rows.items())}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _missing(label: Any) -> bool:
    absent = label is None or type(label).__name__ == "NAType"  # of pandas, which compares with nothing
    return absent or label != label or (isinstance(label, str) and not label.strip())


def _named(split: str) -> str:
    return "" if split == "train" else f"{split}: "
