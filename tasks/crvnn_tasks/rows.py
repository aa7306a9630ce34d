"""Tasks whose examples stand in files: rows, faults with their file and line, and what to do about them."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from crvnn_core import CrvnnError, Example, InputError, Task, UnknownNameError
from crvnn_core.errors import nearest
from crvnn_core.files import open_text


@frozen
class Row:
    """One row of a file: an example, or what is wrong with it."""

    file: Path
    line: int
    example: Example | None = None
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault}"


class FileTask(Task):
    """Reads splits from files in a directory, when they are first asked for.

    A subclass says which ``files`` make up each split, and how to parse one.

    :param directory: where the files are.
    :param bad_rows: stop at a malformed row, or skip it and say how many were skipped.
    """

    #: What the files are called, by split: every pattern is one file, of which the first that exists is taken.
    files: dict[str, tuple[tuple[str, ...], ...]]
    #: Where to get them.
    source: str = ""
    #: Splits whose file the user names: it must be there, where the training files are.
    named: frozenset[str] = frozenset()
    #: Whether the examples are made, and no file is read.
    made: bool = False

    def __init__(self, directory: str, bad_rows: Literal["stop", "skip"] = "stop") -> None:
        self.directory = Path(directory)
        self.bad_rows = bad_rows
        self._read: dict[Path, list[Example]] = {}

    @abstractmethod
    def parse(self, path: Path) -> Iterator[Row]:
        """The rows of one file; a malformed one as a row with a fault."""

    @cached_property
    def splits(self) -> Sequence[str]:  # type: ignore[override]
        """Training, and the splits whose files are there; all of them, when the data is somewhere else.

        A file that the user names is never left out: it is an error if it is missing beside the training files.
        """
        train, *others = self.files
        there = [split for split in self.files if self.paths(split, missing="ignore")]
        for split in others:
            if train in there and split in self.named:
                self.paths(split)
        return (train, *(split for split in others if split in there)) if there else tuple(self.files)

    @cached_property
    def vocabulary(self) -> Sequence[str]:  # type: ignore[override]
        """The tokens of the training split, the most frequent first."""
        return frequent_tokens(self.examples(next(iter(self.files)), 0))

    def paths(self, split: str, missing: Literal["complain", "ignore"] = "complain") -> list[Path]:
        """The files of a split; if one of them is missing, an error that says where it comes from, or no files."""
        if split not in self.files:
            known = f"{nearest(split, self.files)} There are {', '.join(self.files)}."
            raise UnknownNameError(f"no split is called '{split}'.{known}")
        found = []
        for names in self.files[split]:
            there = next((path for name in names if (path := self.directory / name).is_file()), None)
            if there is None and missing == "ignore":
                return []
            if there is None:
                source = "" if split in self.named else self.source
                raise CrvnnError(_missing(self.directory, names, source))
            found.append(there)
        return found

    def why_missing(self, split: str) -> str:
        """Which file of a split is not there, and where it comes from; nothing if all are, or no split is called so."""
        if self.made or split not in self.files:
            return ""
        try:
            self.paths(split)
        except CrvnnError as error:
            return str(error)
        return ""

    def examples(self, split: str, seed: int) -> Iterator[Example]:
        for path in self.paths(split):
            yield from self.read(path)

    def rows(self, split: str) -> Iterator[Row]:
        """Every row of a split, the malformed ones included."""
        for path in self.paths(split):
            yield from self.parse(path)

    def read(self, path: Path) -> Iterator[Example]:
        if path not in self._read:
            self._read[path] = list(well_formed(self.parse(path), path, self.bad_rows))
        yield from self._read[path]


def _missing(directory: Path, names: Sequence[str], source: str) -> str:
    """That there is no file of these names, what there is instead, and where it comes from."""
    folder, name = (directory / names[0]).parent, Path(names[0]).name
    wanted = [name, *(other for other in names[1:] if not other.endswith(".gz"))]
    where = "the current directory" if folder == Path() else folder
    if folder.is_dir():
        has = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
        there = f"It has {listed(has)}." if has else "There is no file in it."
        text = f"{where} has no {' or '.join(wanted)}.{nearest(name, has, cutoff=0.7)} {there}"
    else:
        text = f"{folder} has no {' or '.join(wanted)}: there is no such directory."
    return f"{text}\n  The data comes from {source}." if source else text


def listed(names: Sequence[str], at_most: int = 8) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The objects in a file of one JSON object a line, with their line; what is wrong with a line as a text."""
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.rstrip("\n"))
            except json.JSONDecodeError as error:
                yield number, f"this is not JSON: {error.msg} (column {error.colno})"
            except (
                ValueError,
                RecursionError,
            ) as error:  # a number of thousands of digits, brackets in brackets
                yield number, f"this JSON cannot be read: {error}"
            else:
                kind = _KINDS[type(record)]
                yield number, record if kind == "an object" else f"a line is to hold one object, not {kind}"


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A text of a row; ``ValueError`` says what is there instead."""
    if key not in record:
        raise ValueError(
            f"there is no '{key}'.{nearest(key, record)} There is {listed(list(record)) or 'nothing'}."
        )
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"'{key}' is {_KINDS.get(type(value), 'something else')}, not a text")
    return value


def well_formed(rows: Iterable[Row], path: Path, bad_rows: str) -> Iterator[Example]:
    """The examples of a file's rows; at a malformed one, stop, or go on and tell in the end."""
    skipped: list[Row] = []
    usable = 0
    for row in rows:
        if row.example is not None:
            usable += 1
            yield row.example
        elif bad_rows == "stop":
            raise InputError(f"{row}\n  --set task.bad_rows=skip leaves such rows out.")
        else:
            skipped.append(row)
    first = f"; the first is line {skipped[0].line}: {skipped[0].fault}" if skipped else ""
    if not usable:
        raise InputError(f"{path}: there is not one usable row in this file{first}")
    if skipped:
        note(f"{path}: skipped {len(skipped)} of {usable + len(skipped)} rows{first}")


def note(message: str) -> None:
    """Tell the user something about the data that is no error."""
    print(f"crvnn: {message}", file=sys.stderr)


def frequent_tokens(examples: Iterable[Example], min_count: int = 1) -> tuple[str, ...]:
    """Tokens that come ``min_count`` times or more, the most frequent first, and by name where that is equal."""
    counts = Counter(token for example in examples for sequence in example.sequences for token in sequence)
    known = [token for token, count in counts.items() if count >= min_count]
    return tuple(sorted(known, key=lambda token: (-counts[token], token)))


def shared(tokens: Iterable[str]) -> tuple[str, ...]:
    """The tokens as a tuple in which equal ones are one object: millions of rows then fit in memory."""
    return tuple(map(sys.intern, tokens))


def words(text: str, lower: bool = True) -> tuple[str, ...]:
    """Words, numbers and punctuation marks, as the makers of GloVe cut them: ``don't`` is ``do n't``.

    A hyphen stands alone, a number keeps its points and commas (``1,000.5``), and typographic apostrophes become
    plain ones. Words of scripts that write no spaces are not told apart.
    """
    text = text.lower() if lower else text
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).replace("\u2019", "'").replace(_SOFT_HYPHEN, "")
    found = _pattern(text.isascii()).findall(text)
    return shared(part for word in found for part in (_parts(word) if "'" in word else (word,)))


_SOFT_HYPHEN = "\u00ad"
_JOINERS = "\u200c\u200d"
_ENDINGS = ("n't", "'s", "'m", "'d", "'re", "'ve", "'ll")


def _parts(word: str) -> list[str]:
    """A word and what was contracted with it: ``should``, ``n't`` and ``'ve``."""
    endings: list[str] = []
    while cut := next((len(end) for end in _ENDINGS if word[1:][-len(end) :].lower() == end), 0):
        endings.append(word[-cut:])
        word = word[:-cut]
    return [word, *reversed(endings)]


@cache
def _pattern(ascii_only: bool) -> re.Pattern[str]:
    letter = r"\w"
    if (
        not ascii_only
    ):  # vowel signs and accents of many scripts are characters of their own, and no letters to Python
        codes = (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))
        marks = "".join(chr(code) for code in codes if unicodedata.category(chr(code)).startswith("M"))
        letter = rf"[\w{marks}{_JOINERS}]"
    return re.compile(
        r"\d+(?:[.,]\d+)+"  # a number
        rf"|{letter}+(?:'{letter}+)*"  # a word, which may be o'clock
        rf"|'(?:s|m|d|re|ve|ll)(?!{letter})"  # what was cut from a word before
        r"|[^\w\s]",
        re.IGNORECASE,
    )
