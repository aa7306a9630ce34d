"""The task ``from-file``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from crvnn_core import Example, FilePath, InputError, InputRow
from crvnn_core.annotations import Count, Range, check_ranges
from crvnn_tasks.from_file.tables import table_rows
from crvnn_tasks.labelled import Sequences, held_out, is_number, refuse_numbers, sorted_labels
from crvnn_tasks.rows import RecordTask, expect_record, json_lines, label_text, text_of
from crvnn_tasks.tokenization import TokenKind, split_tokens

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_TEXT = ["text"]


class FromFile(RecordTask):
    """A CSV, TSV or JSONL file of the user's own: one text or a pair in each row, and a label.

    The classes are the labels of the training file. CSV and TSV files name their columns in the first line; between the
    columns of a CSV file are commas, semicolons, tabs or vertical bars. Files may be gzipped (``.gz``).

    :param train: the file to train on.
    :param dev: the file for development; without one, some rows of the training file are held out.
    :param test: the file to test on; may be left out.
    :param text: the column with the text, or a list of it, as in ``["review"]``, or of the two columns of a pair.
    :param label: the column with the label.
    :param label_kind: ``auto`` refuses numbers that nearly all differ (more than ten, and more than one for every two
        rows); ``classes`` makes each of them a class. Strings in JSON are classes anyhow.
    :param format: of all the files; ``auto`` goes by the ends of their names.
    :param tokens: what a token is: words and punctuation marks, substrings between spaces, or single characters other
        than spaces.
    :param lower: convert texts to lower case.
    :param min_count: tokens that are rarer than this in the training split share the unknown token's vector.
    :param dev_share: the share of the training file's distinct texts that is held out for development if ``dev`` is
        empty; at least one text. A hash of each text decides, so that new rows move few of the others between the
        splits. 0 for no development split.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    development_advice = (
        "name a larger file (task.dev), hold out more rows (task.dev_share), or none (task.dev_share=0, which keeps "
        "the last weights)"
    )

    @check_ranges
    def __init__(
        self,
        train: FilePath,
        dev: FilePath = "",
        test: FilePath = "",
        text: list[str] | str = _TEXT,
        label: str = "label",
        label_kind: Literal["auto", "classes"] = "auto",
        format: Literal["auto", "csv", "tsv", "jsonl"] = "auto",
        tokens: TokenKind = "words",
        lower: bool = True,
        min_count: Count = 1,
        dev_share: Annotated[float, Range(ge=0, lt=1)] = 0.1,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        super().__init__("", bad_rows)
        self.text = (text,) if isinstance(text, str) else tuple(text)
        self.label, self.label_kind, self.arity = label, label_kind, len(self.text)
        self.format, self.tokens, self.lower = format, tokens, lower
        self.min_count, self.dev_share = min_count, dev_share
        self._check(train)
        given = {"train": train, "dev": dev or (train if dev_share else ""), "test": test}
        self.files = {split: ((name,),) for split, name in given.items() if name}
        self.named = frozenset(self.files)  # held-out rows come from a named file, too
        self.holds_out = not dev and dev_share > 0

    def _check(self, train: str) -> None:
        if not train:
            raise ValueError("train must name a file")
        if len(self.text) not in (1, 2) or not all(self.text) or len(set(self.text)) != len(self.text):
            raise ValueError(f'text must name one column, as in ["text"], or two, not {list(self.text)}')
        if not self.label or self.label in self.text:
            raise ValueError(f"label must name a column other than that of the text, not '{self.label}'")

    @cached_property
    def classes(self) -> Sequence[str]:  # type: ignore[override]
        """The labels of the training file, sorted as numbers if all of them are, otherwise as text."""
        (path,) = self.paths("train")
        labels, numbers, first = Counter[str](), True, ""
        kind = self._kind(path)
        for line, found in self.records(path):
            try:
                record = expect_record(found)
                self.texts_of(record)
                label = self.label_of(record)
            except ValueError as error:
                first = first or f"line {line}: {error}"
            else:
                labels[label] += 1
                text = kind == "jsonl" and isinstance(
                    record[self.label], str
                )  # the cells of a table always are
                numbers = numbers and is_number(label) and not text
        if len(labels) < 2:
            only = f"only the label '{next(iter(labels))}'" if labels else "no label"
            why = f"\n  Of the rows that cannot be read, this is the first: {first}" if first else ""
            raise InputError(f"{path} has {only} in its column '{self.label}'; at least two are needed{why}")
        if self.label_kind == "auto" and numbers:
            where = f"{path}: the column '{self.label}' has"
            refuse_numbers(where, len(labels), labels.total(), "--set task.label_kind=classes")
        return sorted_labels(labels)

    def tokenize(self, text: str) -> tuple[str, ...]:
        return split_tokens(text, self.tokens, self.lower)

    def holds(self, split: str, example: Example, place: int) -> bool:
        if not self.holds_out or split == "test":
            return True
        return (example.sequences in self._dev) == (split == "dev")

    @cached_property
    def _dev(self) -> frozenset[Sequences]:
        """The texts that are held out for development; an error if there are too few of them."""
        (path,) = self.paths("train")
        examples = self._read.get(path) or [row.example for row in self.parse(path) if row.example]
        found = held_out((example.sequences for example in examples), self.dev_share)
        if not found:
            raise InputError(
                f"{path}: there are too few distinct texts to hold some out for development; "
                "name a development file (task.dev), or turn holding out off (task.dev_share=0)"
            )
        return found

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The rows of a CSV, TSV or JSONL file, with or without a column of labels; ``None`` for another file."""
        return super().inputs(path) if self._kind(path) else None

    def records(self, path: Path, labelled: bool = True) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
        kind = self._kind(path)
        if kind is None:
            raise InputError(
                f"{path}: the format is not clear from the file name, which should end in .csv, .tsv or .jsonl; "
                "--set task.format=csv sets it"
            )
        wanted = (*self.text, self.label) if labelled else self.text
        return json_lines(path) if kind == "jsonl" else table_rows(path, kind, wanted)

    def label_of(self, record: Mapping[str, Any]) -> str:
        label = label_text(record.get(self.label)) or text_of(record, self.label).strip()
        if not label:
            raise ValueError(f"'{self.label}' is empty")
        return label

    def _kind(self, path: Path) -> str | None:
        """The format of a file, by its extension unless it is set; ``None`` if it is not known."""
        if self.format != "auto":
            return self.format
        name = path.with_suffix("") if path.suffix in (".gz", ".zip") else path
        return _FORMATS.get(name.suffix.lower())
