"""The ledger: a file with one JSON object for each run, which several processes append to."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from attrs import asdict, field, frozen
from attrs.validators import deep_mapping, instance_of
from filelock import FileLock, Timeout

import crvnn_core
from crvnn_core.errors import CrvnnError
from crvnn_core.spec import RunSpec
from crvnn_experiments.specs import portable
from crvnn_experiments.worker import Clock

if TYPE_CHECKING:
    from crvnn_core.runs.results import Result
    from crvnn_experiments.plan import Run

_PATIENCE = 60.0  # seconds to wait for another process that is writing
_NUMBER = instance_of((int, float))
_NUMBERS = deep_mapping(instance_of(str), _NUMBER, mapping_validator=instance_of(dict))


@frozen(kw_only=True)
class Entry:
    """A run, or a test of its model on other data: what was done, with which figures, at which cost."""

    experiment: str = field(validator=instance_of(str))
    system: str = field(validator=instance_of(str))
    #: Of the spec; see ``specs.RowSpec``.
    fingerprint: str = field(validator=instance_of(str))
    budget: str = field(validator=instance_of(str))
    seed: int = field(validator=instance_of(int))
    #: Settings of the task that it was tested on after training; empty for the run itself.
    test: Mapping[str, Any] = field(factory=dict, validator=instance_of(dict))
    #: Accuracies as fractions by split, and by group as ``test/11-20``; or minutes.
    figures: Mapping[str, float] = field(validator=_NUMBERS)
    #: Examples of each split.
    examples: Mapping[str, int] = field(factory=dict, validator=_NUMBERS)
    steps: int = field(default=0, validator=instance_of(int))
    best_step: int = field(default=0, validator=instance_of(int))
    #: Hours of wall-clock time and of processor time, interruptions left out.
    hours: float = field(validator=_NUMBER)
    cpu_hours: float = field(validator=_NUMBER)
    data: str
    hardware: Mapping[str, Any] = field(validator=instance_of(dict))
    versions: Mapping[str, str] = field(validator=instance_of(dict))
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
        self._problems: list[str] = []

    @property
    def entries(self) -> dict[str, Entry]:
        """All entries by key; of two with one key, the first."""
        self._refresh()
        return self._entries

    @property
    def problems(self) -> list[str]:
        """What is wrong with lines that cannot be read; they are left as they are."""
        self._refresh()
        return self._problems

    def _refresh(self) -> None:
        try:
            facts = self.path.stat()
            seen = (facts.st_size, facts.st_mtime_ns)
            if seen != self._seen:
                self._entries, self._problems = _read(self.path)
                self._seen = seen
        except FileNotFoundError:
            self._entries, self._problems, self._seen = {}, [], None
        except OSError as error:
            raise CrvnnError(f"{self.path} cannot be read: {error}") from error

    def append(self, entries: Iterable[Entry]) -> None:
        """Add entries that are not there yet, each as one line."""
        with appending(self.path) as file:
            for entry in entries:
                if entry.key not in self.entries:
                    file.write(json.dumps(asdict(entry), ensure_ascii=False).encode() + b"\n")


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """A file to append whole lines to, while other processes wait; what else is in it is never touched."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=_PATIENCE), path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # of a process that was killed
                    file.write(b"\n")
            yield file
            file.flush()
            os.fsync(file.fileno())
    except Timeout:
        raise CrvnnError(f"{path}: another process has been writing for too long") from None
    except OSError as error:
        raise CrvnnError(f"{path} cannot be written: {error}") from error


def _read(path: Path) -> tuple[dict[str, Entry], list[str]]:
    found: dict[str, Entry] = {}
    problems = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = Entry(**json.loads(line, parse_constant=_no_number))
            found.setdefault(entry.key, entry)
        except (ValueError, TypeError) as error:
            what = "is not complete" if isinstance(error, json.JSONDecodeError) else "is not of this kind"
            problems.append(
                f"{path}:{number}: this row {what} and is not counted ({error.args[0]}). It is left as it is; "
                "its run is recorded again when the table is made again."
            )
    return found, problems


def _no_number(constant: str) -> float:
    raise TypeError(f"{constant} is not a number")


def new_entry(run: Run, spec: RunSpec, clock: Clock, **facts: Any) -> Entry:
    """An entry of a run with figures and what else is known, and with what every entry has."""
    from crvnn_bench.setup import hardware

    content: dict[str, Any] = {
        "experiment": run.experiment.name,
        "system": run.row.system.name,
        "fingerprint": run.made.fingerprint,
        "budget": run.plan.budget,
        "seed": run.seed,
        "hours": round(clock.hours, 5),
        "cpu_hours": round(clock.cpu_hours, 5),
        "data": run.experiment.budgets[run.plan.budget].data,
        "hardware": hardware(device_of(spec)),
        "versions": {
            "crvnn": version("crvnn"),
            "torch": version("torch"),
            "python": platform.python_version(),
        },
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "spec": portable(spec),
    }
    return Entry(**(content | facts))


def scores(results: Mapping[str, Result]) -> dict[str, dict[str, Any]]:
    """Accuracies and numbers of examples by split, and by group as ``test/11-20``."""
    found = {
        f"{split}/{group}" if group else split: score
        for split, result in results.items()
        for group, score in {"": result.total, **result.buckets}.items()
    }
    return {
        "figures": {name: round(score.accuracy, 6) for name, score in found.items()},
        "examples": {name: score.examples for name, score in found.items()},
    }


def device_of(spec: RunSpec) -> str:
    """The kind of device that a spec trains on here."""
    import torch

    if spec.training.accelerator != "auto":
        return spec.training.accelerator
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


@cache
def _commit() -> str:
    """The commit of crvnn's repository, with ``+`` if its code was changed; empty if it is not installed from one."""
    package = Path(crvnn_core.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package), *words], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not just anybody's repository around it
        code = [f":/{folder}" for folder in ("crvnn_core", "plugins", "tasks")]
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""
