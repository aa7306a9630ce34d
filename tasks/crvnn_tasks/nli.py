"""Natural language inference (tasks ``snli`` and ``mnli``): entailment, contradiction or neither of a sentence pair.

Reads the files of SNLI (Bowman et al., 2015) and MultiNLI (Williams et al., 2018) as published: JSON Lines, of which
``gold_label``, ``sentence1`` and ``sentence2`` are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, starmap
from pathlib import Path
from typing import Any, Literal

from attrs import evolve

from crvnn_core import Example, FilePath, InputError, InputRow
from crvnn_core.annotations import CountOrZero, check_ranges
from crvnn_tasks.rows import RecordTask, json_lines, note
from crvnn_tasks.tokenization import words

_UNDECIDED = "-"  # the label of pairs without a majority among the annotators


class Nli(RecordTask):
    """Sentence pairs with a gold label; the base class of ``Snli`` and ``Mnli``."""

    classes = ("entailment", "neutral", "contradiction")
    arity = 2
    text, label = ("sentence1", "sentence2"), "gold_label"
    #: By split, the names of its published file.
    published: Mapping[str, tuple[str, ...]]

    @check_ranges
    def __init__(
        self,
        directory: str,
        names: Mapping[str, str],
        max_tokens: CountOrZero,
        bad_rows: Literal["stop", "skip"],
    ) -> None:
        super().__init__(directory, bad_rows)
        self.max_tokens = max_tokens
        self.named = frozenset(split for split, name in names.items() if name)
        self.files = {
            split: (
                (name,) if name else tuple(n + end for n in self.published[split] for end in ("", ".gz")),
            )
            for split, name in names.items()
        }

    def records(self, path: Path, labelled: bool = True) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
        """The pairs of a file; those without a gold label are omitted, as in published results."""
        for line, record in json_lines(path):
            if isinstance(record, str) or not labelled or record.get(self.label) != _UNDECIDED:
                yield line, record

    def inputs(self, path: Path) -> Iterable[InputRow] | None:
        """The pairs of a JSON Lines file, with or without a gold label; ``None`` for another file."""
        records = self.records(path, labelled=False)
        first = next(records, (0, ""))
        return None if isinstance(first[1], str) else starmap(self.input_row, chain([first], records))

    def input_row(self, line: int, found: Mapping[str, Any] | str) -> InputRow:
        """A pair to predict: of its other columns the identifier alone, and its label if that is a class."""
        row = super().input_row(line, found)
        columns = {key: value for key, value in row.columns.items() if key == "pairID"}
        return evolve(row, gold=row.gold if row.gold in self.classes else "", columns=columns)

    def holds(self, split: str, example: Example, place: int) -> bool:
        return split != "train" or not self.max_tokens or max(map(len, example.sequences)) <= self.max_tokens

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        return iter(self._training) if split == "train" else super().examples(split, seed)

    @cached_property
    def _training(self) -> list[Example]:
        """The training pairs; how many were omitted for their length is noted."""
        kept = list(super().examples("train", 0))
        pairs = sum(1 for path in self.paths("train") for _ in self.read(path))
        if not kept:
            raise InputError(
                f"{self.directory}: every training pair has more than {self.max_tokens} tokens (max_tokens)"
            )
        if len(kept) < pairs:
            count = f"{pairs - len(kept):,} of {pairs:,}"
            note(f"{self.directory}: omitted {count} training pairs with more than {self.max_tokens} tokens")
        return kept

    def tokenize(self, text: str) -> tuple[str, ...]:
        return words(text)


class Snli(Nli):
    """The Stanford Natural Language Inference corpus: pairs of image captions.

    Words are lower-cased, and punctuation marks are tokens of their own.

    :param directory: where ``snli_1.0_train.jsonl``, ``snli_1.0_dev.jsonl`` and ``snli_1.0_test.jsonl`` are, or
        ``train.jsonl``, ``dev.jsonl`` and ``test.jsonl``; plain, or gzipped (``.gz``).
    :param train: another name of the file of training pairs in that directory.
    :param dev: another name of the file of development pairs.
    :param test: another name of the file of test pairs.
    :param max_tokens: training pairs with a sentence longer than this are omitted; 0 for no limit.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    source = "nlp.stanford.edu/projects/snli; 'crvnn data get snli --dir DIR' downloads it"
    published = {  # noqa: RUF012
        split: (f"snli_1.0_{split}.jsonl", f"{split}.jsonl") for split in ("train", "dev", "test")
    }

    def __init__(
        self,
        directory: FilePath,
        train: str = "",
        dev: str = "",
        test: str = "",
        max_tokens: CountOrZero = 0,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        super().__init__(directory, {"train": train, "dev": dev, "test": test}, max_tokens, bad_rows)


class Mnli(Nli):
    """The Multi-Genre Natural Language Inference corpus. ``dev`` has the genres of the training set ("matched").

    Words are lower-cased, and punctuation marks are tokens of their own. The published test pairs have no labels.

    :param directory: where ``multinli_1.0_train.jsonl``, ``multinli_1.0_dev_matched.jsonl`` and
        ``multinli_1.0_dev_mismatched.jsonl`` are, or ``train.jsonl``, ``dev.jsonl`` and ``mismatched.jsonl``; plain, or
        gzipped (``.gz``).
    :param train: another name of the file of training pairs in that directory.
    :param dev: another name of the file of matched development pairs.
    :param mismatched: another name of the file of development pairs of other genres.
    :param with_snli: the directory of SNLI, or a file of its pairs, to add to the training split; empty for none.
    :param max_tokens: training pairs with a sentence longer than this are omitted; 0 for no limit.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    source = "cims.nyu.edu/~sbowman/multinli; 'crvnn data get mnli --dir DIR' downloads it"
    published = {  # noqa: RUF012
        "train": ("multinli_1.0_train.jsonl", "train.jsonl"),
        "dev": ("multinli_1.0_dev_matched.jsonl", "dev_matched.jsonl", "dev.jsonl"),
        "mismatched": (
            "multinli_1.0_dev_mismatched.jsonl",
            "dev_mismatched.jsonl",
            "mismatched.jsonl",
        ),
    }

    def __init__(
        self,
        directory: FilePath,
        train: str = "",
        dev: str = "",
        mismatched: str = "",
        with_snli: FilePath = "",
        max_tokens: CountOrZero = 0,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        names = {"train": train, "dev": dev, "mismatched": mismatched}
        super().__init__(directory, names, max_tokens, bad_rows)
        path = Path(with_snli)
        self.snli: Snli | None = None
        if path.suffix in (".jsonl", ".gz"):
            self.snli = Snli(str(path.parent), train=path.name, bad_rows=bad_rows)
        elif with_snli:
            self.snli = Snli(with_snli, bad_rows=bad_rows)

    def paths(self, split: str) -> list[Path]:
        own = super().paths(split)
        return own + self.snli.paths("train") if split == "train" and self.snli is not None else own
