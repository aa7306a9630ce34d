"""The ledger: a file with one JSON object for each run, which several processes append to."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import Attribute, asdict, field, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.locks import LockFile

_PATIENCE = 60.0  # seconds to wait for another process that is writing


Check = Callable[[Any, "Attribute[Any]", Any], None]


def _is(what: str, kind: type | tuple[type, ...]) -> Check:
    def check(entry: Any, attribute: Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind) or value != value:  # not a number
            raise TypeError(f"'{attribute.name}' has {value!r} where {what} is expected")

    return check


_TEXT, _WHOLE, _NUMBER = _is("a text", str), _is("a whole number", int), _is("a number", (int, float))
_TABLE = _is("a table", Mapping)


def _numbers(entry: Any, attribute: Attribute[Any], value: Any) -> None:
    _TABLE(entry, attribute, value)
    for each in value.values():
        _NUMBER(entry, attribute, each)


@frozen(kw_only=True)
class Entry:
    """A run, or a test of its model on other data: what was done, with which figures, at which cost."""

    experiment: str = field(validator=_TEXT)
    system: str = field(validator=_TEXT)
    #: Of the spec; see ``specs.RowSpec``.
    fingerprint: str = field(validator=_TEXT)
    budget: str = field(validator=_TEXT)
    seed: int = field(validator=_WHOLE)
    #: Settings of the task that it was tested on after training; empty for the run itself.
    test: Mapping[str, Any] = field(factory=dict, validator=_TABLE)
    #: Accuracies as fractions by split, and by group as ``test/11-20``; or minutes.
    figures: Mapping[str, float] = field(validator=_numbers)
    #: Examples of each split.
    examples: Mapping[str, int] = field(factory=dict, validator=_numbers)
    steps: int = field(default=0, validator=_WHOLE)
    best_step: int = field(default=0, validator=_WHOLE)
    #: Hours of wall-clock time and of processor time, interruptions left out.
    hours: float = field(validator=_NUMBER)
    cpu_hours: float = field(validator=_NUMBER)
    data: str
    hardware: Mapping[str, Any] = field(validator=_TABLE)
    versions: Mapping[str, str] = field(validator=_TABLE)
    #: Of crvnn's repository; empty if it is not installed from one.
    commit: str
    date: str
    spec: Mapping[str, Any] = field(factory=dict, repr=False)

    @property
    def key(self) -> str:
        """What it is known by: two entries with the same key are of the same run."""
        return entry_key(self.experiment, self.budget, self.fingerprint, self.seed, self.test)


def entry_key(experiment: str, budget: str, fingerprint: str, seed: int, test: Mapping[str, Any]) -> str:
    """The key of an entry."""
    return json.dumps([experiment, budget, fingerprint, seed, test], sort_keys=True)


class Ledger:
    """The entries of a file by key, read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._entries: dict[str, Entry] = {}
        #: What is wrong with lines that cannot be read; they are left as they are.
        self.problems: list[str] = []

    @property
    def entries(self) -> dict[str, Entry]:
        """All entries by key; of two with one key, the first."""
        try:
            facts = self.path.stat()
            seen = (facts.st_size, facts.st_mtime_ns)
            if seen != self._seen:
                self._entries, self.problems = _read(self.path)
                self._seen = seen
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CrvnnError(f"{self.path} cannot be read: {error}") from error
        return self._entries

    def read(self, tell: Callable[[str], None]) -> None:
        """Read the file, and tell what is wrong with each line that cannot be read."""
        if self.entries or self.problems:
            for problem in self.problems:
                tell(problem)

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries that are not there yet, each as one line; what else is in the file is never touched."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = LockFile(self.path.with_name(f".{self.path.name}.lock"), grace=30.0)
        end = time.monotonic() + _PATIENCE
        while not lock.acquire():
            if time.monotonic() > end:
                raise CrvnnError(f"{self.path}: another process ({lock.owner}) has been writing for too long")
            time.sleep(0.05)
        try:
            new = [entry for entry in entries if entry.key not in self.entries]
            with self.path.open("ab+") as file:
                if (
                    file.seek(0, os.SEEK_END) and _last_byte(self.path) != b"\n"
                ):  # of a process that was killed
                    file.write(b"\n")
                for entry in new:
                    file.write(json.dumps(asdict(entry), ensure_ascii=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CrvnnError(f"{self.path} cannot be written: {error}") from error
        finally:
            lock.release()


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read()


def _read(path: Path) -> tuple[dict[str, Entry], list[str]]:
    found: dict[str, Entry] = {}
    problems = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = Entry(**json.loads(line))
            found.setdefault(entry.key, entry)
        except (ValueError, TypeError) as error:
            what = "is not complete" if isinstance(error, ValueError) else "is not of this kind"
            problems.append(
                f"{path}:{number}: this row {what} and is not counted ({error}). It is left as it is; "
                "its run is recorded again when the table is made again."
            )
    return found, problems
