"""Vectors and datasets of torchtext. Needs the extra ``torchtext``.

torchtext is imported when something is asked of it, never before: a trained model is used without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
import ssl
import sys
import tarfile
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.interfaces import Example, Task
from crvnn_plugins.embeddings import Pretrained, Vectors


class TorchTextVectors(Pretrained):
    """Word vectors that torchtext knows by name, fetched when they are first needed.

    A token without a vector becomes the shared unknown. ``charngram.100d`` makes a vector of a token's letters, so it
    has no list of words to take more from.

    :param vectors: their name.
    :param cache: a directory where torchtext keeps what it has fetched.
    :param trainable: whether training changes the vectors.
    :param more: how many words to take besides the task's tokens, so that a trained model knows words that training
        never met. The first in the file, which in published files are the most frequent.
    """

    def __init__(
        self,
        vectors: Literal[
            "charngram.100d",
            "fasttext.en.300d",
            "fasttext.simple.300d",
            "glove.42B.300d",
            "glove.840B.300d",
            "glove.twitter.27B.25d",
            "glove.twitter.27B.50d",
            "glove.twitter.27B.100d",
            "glove.twitter.27B.200d",
            "glove.6B.50d",
            "glove.6B.100d",
            "glove.6B.200d",
            "glove.6B.300d",
        ],
        cache: str = ".vector_cache",
        trainable: bool = False,
        more: int = 20_000,
    ) -> None:
        super().__init__(vectors, trainable, more)
        self.cache = Path(cache).expanduser()

    def find(self, tokens: Collection[str]) -> tuple[Vectors, Vectors]:
        loaded = self._load()
        if self.source.startswith("charngram"):
            made = {token: loaded[token][0].numpy() for token in tokens}
            return {token: vector for token, vector in made.items() if vector.any()}, {}
        numbers: dict[str, int] = loaded.stoi
        others = islice((word for word in numbers if word and word not in tokens), self.more)
        rows = loaded.vectors.numpy()
        return (
            {token: rows[numbers[token]] for token in tokens if token in numbers},
            {word: rows[numbers[word]] for word in others},
        )

    def _load(self) -> Any:
        """torchtext's own object, from its cache or else from the network."""
        text = _torchtext()
        load = text.vocab.pretrained_aliases[self.source]
        try:
            with _guarded(text):
                if (self.cache / f"{self._file}.pt").is_file():
                    return load(cache=str(self.cache))
                with _staging(self.cache, keep=lambda name: name == self._file or _packed(name)) as staging:
                    return load(cache=str(staging))
        except Exception as error:  # whatever a library says that nobody looks after any more
            raise CrvnnError(
                f"torchtext could not load '{self.source}' from {self.cache}: {_first_line(error)}\n"
                "  If a file there is damaged, delete it and it is fetched again. If you have the vectors as a text "
                "file, the embedding 'glove' reads it."
            ) from error

    @property
    def _file(self) -> str:
        """What torchtext calls the text file."""
        kind, _, rest = self.source.partition(".")
        names = {"charngram": "charNgram.txt", "fasttext": f"wiki.{rest.partition('.')[0]}.vec"}
        return names.get(kind, f"{self.source}.txt")


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
_TOKENISED = ("sst", "trec")  # with spaces between all tokens, punctuation too

_Row = tuple[tuple[tuple[str, ...], ...], str]  # sequences, and the name of their class


class TorchTextTask(Task):
    """A dataset of torchtext, fetched when it is first needed.

    The test split of ``multinli`` is its mismatched development set: the real one has no labels.

    :param dataset: its name.
    :param root: a directory where torchtext keeps what it has fetched.
    :param lower: lower-case the tokens.
    :param tokenizer: ``split`` at spaces, or ``basic-english``, which sets punctuation apart and lower-cases; ``auto``
        is ``split`` for sst and trec, which are tokenised already.
    :param fine_grained: five classes instead of three in sst, fifty instead of six in trec.
    :param held_out: how much of the training set becomes the development split of trec and imdb, which have none.
    :param bad_rows: stop at an unusable row, or skip it and say how many were skipped.
    """

    def __init__(
        self,
        dataset: Literal["sst", "snli", "multinli", "trec", "imdb"],
        root: str = ".data",
        lower: bool = True,
        tokenizer: Literal["auto", "split", "basic-english"] = "auto",
        fine_grained: bool = False,
        held_out: float = 0.1,
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
        if not 0 < held_out < 1:
            raise ValueError(f"held_out must be between 0 and 1, not {held_out}")
        self.dataset, self.root = dataset, Path(root).expanduser()
        self.lower, self.tokenizer, self.fine_grained = lower, tokenizer, fine_grained
        self.held_out, self.bad_rows = held_out, bad_rows
        self.arity = 2 if dataset in _PAIRS else 1
        self._rows: dict[str, list[_Row]] = {}

    @cached_property
    def vocabulary(self) -> Sequence[str]:  # type: ignore[override]
        """The tokens of the training split, the most frequent first."""
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
        tokens = self._tokenizer()(text)
        return tuple(token.lower() for token in tokens) if self.lower else tuple(tokens)

    def _tokenizer(self) -> Callable[[str], list[str]]:
        if self.tokenizer == "split":
            return str.split
        tokenizer: Callable[[str], list[str]] = _torchtext().data.get_tokenizer("basic_english")
        return tokenizer

    def _examples(self, rows: Sequence[_Row], where: str) -> Iterator[Example]:
        """Rows with the numbers of their classes; at an unusable one, stop, or go on and tell in the end."""
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
                    f"  --set task.bad_rows=skip leaves such rows out. If {self.root / self.dataset} is not what it "
                    "should be, delete it and it is fetched again."
                )
        if skipped:
            print(
                f"crvnn: {where}: skipped {len(skipped)} of {len(rows)} rows; {skipped[0]}", file=sys.stderr
            )
        if len(skipped) == len(rows):
            raise InputError(f"{where}: there is not one usable row")

    def _split(self, split: str) -> Sequence[_Row]:
        """The rows of a split; where none is published for development, a part of the training set is."""
        if "dev" in _FILES[self.dataset] or split == "test":
            return self._file(split)
        return [row for row in self._file("train") if self._is_held_out(row) == (split == "dev")]

    def _is_held_out(self, row: _Row) -> bool:
        """The text itself decides, so that no text is in both parts."""
        text = "\n".join(" ".join(sequence) for sequence in row[0])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 < self.held_out

    def _file(self, name: str) -> list[_Row]:
        """The rows of a published file, read once."""
        if name not in self._rows:
            self._rows[name] = self._read(self._fetched() / _FILES[self.dataset][name])
        return self._rows[name]

    def _fetched(self) -> Path:
        """The directory with the dataset's files, which are fetched if there is none."""
        text = _torchtext()
        kind = getattr(text.datasets, _CLASS_NAMES[self.dataset])
        home = self.root / str(kind.name)
        if not home.is_dir():
            try:
                with _guarded(text), _staging(self.root) as staging:
                    kind.download(str(staging))
            except Exception as error:  # whatever a library says that nobody looks after any more
                raise CrvnnError(
                    f"torchtext could not fetch '{self.dataset}': {_first_line(error)}\n"
                    f"  The files may also be put into {home / kind.dirname} by hand; they come from "
                    f"{' and '.join(kind.urls)}"
                ) from error
        return home / str(kind.dirname)

    def _read(self, path: Path) -> list[_Row]:
        """What torchtext makes of a file (of a directory, in the case of imdb)."""
        text = _torchtext()
        if not path.exists():
            raise CrvnnError(
                f"{path}: there is no such file\n  If {self.root / self.dataset} is not complete, delete it and it is "
                "fetched again."
            )
        try:
            with _guarded(text):
                loaded = getattr(text.datasets, _CLASS_NAMES[self.dataset])(str(path), **self._fields(text))
        except ImportError as error:
            raise CrvnnError(
                f"torchtext reads '{self.dataset}' by means of a package that is not here ({error}): pip install nltk\n"
                "  The tasks 'sst2' and 'sst5' read the same files without it."
            ) from error
        except Exception as error:  # whatever a library says that nobody looks after any more
            raise CrvnnError(f"torchtext could not read {path}: {_first_line(error)}") from error
        columns = ("premise", "hypothesis") if self.dataset in _PAIRS else ("text",)
        rows = [
            (tuple(tuple(getattr(each, name)) for name in columns), each.label) for each in loaded.examples
        ]
        return sorted(rows) if self.dataset == "imdb" else rows  # which comes in the order of the file system

    def _fields(self, text: Any) -> dict[str, Any]:
        """How torchtext is to read a file."""
        words = text.data.Field(tokenize=self._tokenizer(), lower=self.lower)
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
    """Where annotators did not agree, the label is a hyphen."""
    return bool(example.label != "-")


def _torchtext() -> Any:
    """The package, if it is there and can be used."""
    advice = "pip install 'crvnn[torchtext]'"
    try:
        text = importlib.import_module("torchtext")
    except (ImportError, OSError) as error:  # OSError: the last releases were built for an older torch
        raise CrvnnError(f"torchtext cannot be imported ({_first_line(error)}): {advice}") from error
    if not hasattr(text.data, "Field"):
        raise CrvnnError(f"torchtext {text.__version__} has no Fields any more; crvnn needs 0.6.0: {advice}")
    return text


@contextlib.contextmanager
def _guarded(text: Any) -> Iterator[None]:
    """Keep torchtext from printing to standard output, from warning of its age, and from lowering our defences.

    It turns off the checking of certificates for the whole process, and unpacks archives as they come.
    """
    bar = partial(text.vocab.tqdm, disable=None)  # none where there is no terminal
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        stack.enter_context(_changed(text.vocab, "tqdm", bar))
        stack.enter_context(_changed(text.utils, "tqdm", bar))
        stack.enter_context(_changed(ssl, "_create_default_https_context", ssl.create_default_context))
        stack.enter_context(_changed(ssl, "_create_unverified_context", ssl.create_default_context))
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
            stack.enter_context(
                _changed(tarfile.TarFile, "extraction_filter", staticmethod(tarfile.data_filter))
            )
        yield


@contextlib.contextmanager
def _changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _staging(directory: Path, keep: Callable[[str], bool] = lambda name: False) -> Iterator[Path]:
    """A directory to fetch into, whose content moves to ``directory`` when all went well.

    Whoever is killed half-way leaves nothing that looks whole, and two processes do not get in each other's way.

    :param keep: which files of ``directory`` are to be found in it, by name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".fetching-") as name:
        staging = Path(name)
        for path in [path for path in directory.iterdir() if path.is_file() and keep(path.name)]:
            _link(path, staging / path.name)
        there = {path.name for path in staging.iterdir()}
        yield staging
        for path in [path for path in staging.iterdir() if path.name not in there]:
            try:
                path.replace(directory / path.name)
            except OSError:
                if not (directory / path.name).exists():
                    raise  # otherwise another process was quicker, and what it fetched stays


def _link(path: Path, to: Path) -> None:
    try:
        os.link(path, to)
    except OSError:  # not every file system has links
        shutil.copyfile(path, to)


def _packed(name: str) -> bool:
    return name.endswith((".zip", ".gz"))


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
