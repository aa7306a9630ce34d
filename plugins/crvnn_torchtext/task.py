"""The task ``torchtext``: a dataset that torchtext downloads and reads."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from crvnn_core.annotations import FilePath, Range, check_ranges
from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.interfaces import Example, Task
from crvnn_torchtext.library import first_line, guarded, staging, torchtext

_FILES = {
    "sst": {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"},
    "snli": {split: f"snli_1.0_{split}.jsonl" for split in ("train", "dev", "test")},
    "multinli": {
        "train": "multinli_1.0_train.jsonl",
        "dev": "multinli_1.0_dev_matched.jsonl",
        "test": "multinli_1.0_dev_mismatched.jsonl",
    },
    "trec": {"train": "train_5500.label", "test": "TREC_10.label"},
    "imdb": {"train": "train", "test": "test"},
}
_CLASSES = {
    "sst": ("negative", "neutral", "positive"),
    "snli": ("entailment", "neutral", "contradiction"),
    "multinli": ("entailment", "neutral", "contradiction"),
    "trec": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
    "imdb": ("neg", "pos"),
}
_CLASS_NAMES = {"sst": "SST", "snli": "SNLI", "multinli": "MultiNLI", "trec": "TREC", "imdb": "IMDB"}
_PAIRS = ("snli", "multinli")
_TOKENISED = ("sst", "trec")  # already tokenised, with spaces between all tokens

_Row = tuple[tuple[tuple[str, ...], ...], str]  # sequences, label


class TorchTextTask(Task):
    """A dataset of torchtext, downloaded on first use.

    The test split of ``multinli`` is its mismatched development set: the real one has no labels.

    :param dataset: torchtext's name of the dataset.
    :param root: the directory of torchtext's downloads.
    :param lower: lower-case the tokens.
    :param tokenizer: ``split`` at spaces, or ``basic-english``, which sets punctuation apart and lower-cases; ``auto``
        is ``split`` for sst and trec, which are tokenised already.
    :param fine_grained: five classes instead of three in sst, fifty instead of six in trec.
    :param held_out: the share of the training set that is the development split of trec and imdb, which publish none.
    :param bad_rows: stop at a malformed row, or skip it and report how many were skipped.
    """

    @check_ranges
    def __init__(
        self,
        dataset: Literal["sst", "snli", "multinli", "trec", "imdb"],
        root: FilePath = ".data",
        lower: bool = True,
        tokenizer: Literal["auto", "split", "basic-english"] = "auto",
        fine_grained: bool = False,
        held_out: Annotated[float, Range(gt=0, lt=1)] = 0.1,
        bad_rows: Literal["stop", "skip"] = "stop",
    ) -> None:
        if tokenizer == "auto":
            tokenizer = "split" if dataset in _TOKENISED else "basic-english"
        if tokenizer == "basic-english" and not lower:
            raise ValueError(
                "lower cannot be false: the tokenizer basic-english lower-cases; use tokenizer=split"
            )
        if fine_grained and dataset not in ("sst", "trec"):
            raise ValueError(f"fine_grained is for sst and trec; {dataset} has one set of classes only")
        self.dataset, self.root = dataset, Path(root).expanduser()
        self.lower, self.tokenizer, self.fine_grained = lower, tokenizer, fine_grained
        self.held_out, self.bad_rows = held_out, bad_rows
        self.arity = 2 if dataset in _PAIRS else 1
        self._rows: dict[str, list[_Row]] = {}

    @cached_property
    def vocabulary(self) -> Sequence[str]:  # type: ignore[override]
        """The tokens of the training split, by descending frequency."""
        rows = self._split("train")
        counts = Counter(token for sequences, _ in rows for sequence in sequences for token in sequence)
        return tuple(sorted(counts, key=lambda token: (-counts[token], token)))

    @cached_property
    def classes(self) -> Sequence[str]:  # type: ignore[override]
        """The published classes; those of fine-grained TREC are read from the training split."""
        if not self.fine_grained:
            return _CLASSES[self.dataset]
        if self.dataset == "sst":
            return ("very negative", "negative", "neutral", "positive", "very positive")
        return sorted({label for _, label in self._file("train")})

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        yield from self._examples(self._split(split), f"torchtext's {self.dataset}, {split}")

    def read(self, path: Path) -> Iterator[Example]:
        yield from self._examples(self._read(path), str(path))

    def tokenize(self, text: str) -> tuple[str, ...]:
        text = text.lower() if self.lower else text
        return tuple(text.split() if self.tokenizer == "split" else self._basic_english(text))

    @cached_property
    def _basic_english(self) -> Callable[[str], list[str]]:
        tokenizer: Callable[[str], list[str]] = torchtext().data.get_tokenizer("basic_english")
        return tokenizer

    def _examples(self, rows: Sequence[_Row], where: str) -> Iterator[Example]:
        """The examples of rows. A malformed row raises ``InputError``, or is skipped and reported at the end."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        skipped = []
        for place, (sequences, label) in enumerate(rows):
            if all(sequences) and label in numbers:
                yield Example(sequences, numbers[label])
                continue
            fault = f"unknown label {label!r}" if label not in numbers else "a text without tokens"
            skipped.append(f"example {place}: {fault}")
            if self.bad_rows == "stop":
                raise InputError(
                    f"{where}, {skipped[0]}; the labels are {', '.join(self.classes)}\n"
                    f"  --set task.bad_rows=skip skips such rows. If {self.root / self.dataset} is damaged, delete "
                    "it, and it is downloaded again."
                )
        if skipped:
            print(
                f"crvnn: {where}: skipped {len(skipped)} of {len(rows)} rows; {skipped[0]}", file=sys.stderr
            )
        if len(skipped) == len(rows):
            raise InputError(f"{where}: there is no well-formed row")

    def _split(self, split: str) -> Sequence[_Row]:
        """The rows of a split; without a published development split, a part of the training set."""
        if "dev" in _FILES[self.dataset] or split == "test":
            return self._file(split)
        return [row for row in self._file("train") if self._is_held_out(row) == (split == "dev")]

    def _is_held_out(self, row: _Row) -> bool:
        """Whether a hash of the text puts the row into the development split, so that no text is in both splits."""
        text = "\n".join(" ".join(sequence) for sequence in row[0])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 < self.held_out

    def _file(self, name: str) -> list[_Row]:
        """The rows of a published file, read once."""
        if name not in self._rows:
            self._rows[name] = self._read(self._fetched() / _FILES[self.dataset][name])
        return self._rows[name]

    def _fetched(self) -> Path:
        """The directory of the dataset's files, which are downloaded if it does not exist."""
        text = torchtext()
        kind = getattr(text.datasets, _CLASS_NAMES[self.dataset])
        home = self.root / str(kind.name)
        if not home.is_dir():
            try:
                with guarded(text), staging(self.root) as directory:
                    kind.download(str(directory))
            except Exception as error:  # torchtext is unmaintained and raises all kinds of errors
                raise CrvnnError(
                    f"torchtext could not download '{self.dataset}': {first_line(error)}\n"
                    f"  The files may also be put into {home / kind.dirname} by hand; they come from "
                    f"{' and '.join(kind.urls)}"
                ) from error
        return home / str(kind.dirname)

    def _read(self, path: Path) -> list[_Row]:
        """The rows that torchtext reads from a file (for imdb, a directory)."""
        text = torchtext()
        if not path.exists():
            raise CrvnnError(
                f"{path}: there is no such file\n  If {self.root / self.dataset} is incomplete, delete it, and it is "
                "downloaded again."
            )
        try:
            with guarded(text):
                loaded = getattr(text.datasets, _CLASS_NAMES[self.dataset])(str(path), **self._fields(text))
        except ImportError as error:
            raise CrvnnError(
                f"torchtext needs another package to read '{self.dataset}' ({error}): pip install nltk\n"
                "  The tasks 'sst2' and 'sst5' read the same files without it."
            ) from error
        except Exception as error:  # torchtext is unmaintained and raises all kinds of errors
            raise CrvnnError(f"torchtext could not read {path}: {first_line(error)}") from error
        columns = ("premise", "hypothesis") if self.dataset in _PAIRS else ("text",)
        rows = [
            (tuple(tuple(getattr(each, name)) for name in columns), each.label) for each in loaded.examples
        ]
        return sorted(rows) if self.dataset == "imdb" else rows  # whose order is that of the file system

    def _fields(self, text: Any) -> dict[str, Any]:
        """Arguments of torchtext's dataset class: the columns, and what to do with them."""
        words = text.data.Field(tokenize=self.tokenize)
        label = text.data.Field(sequential=False)
        if self.dataset in _PAIRS:
            names = {
                "sentence1": ("premise", words),
                "sentence2": ("hypothesis", words),
                "gold_label": ("label", label),
            }
            return {"format": "json", "fields": names, "filter_pred": _is_labelled}
        options = {"fine_grained": self.fine_grained} if self.dataset in ("sst", "trec") else {}
        return {"text_field": words, "label_field": label, **options}


def _is_labelled(example: Any) -> bool:
    """Whether the pair has a gold label: without a majority among the annotators it is a hyphen."""
    return bool(example.label != "-")
