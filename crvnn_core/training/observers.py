"""The dispatch of training events to observers, and the observer that the trainer itself needs, ``JsonLines``.

Every run directory gets a ``metrics.jsonl`` from it. Any other observer belongs to a plug-in: the built-in ones are in
``crvnn_parts/observers``. The interface is ``crvnn_core.Observer``.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from crvnn_core.errors import FAILURES, CrvnnError, PluginError, raised_at
from crvnn_core.files import replacing
from crvnn_core.interfaces import Observer
from crvnn_core.runs.results import finite


class ObserverDispatch:
    """Calls every observer's method for an event; one whose ``started`` was never reached gets no other event."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = list(observers)
        self.started: list[Observer] = []

    def start(self, steps: int, facts: Mapping[str, Any]) -> None:
        """Call ``started``, before the first step."""
        for observer in self.observers:
            _call(observer, "started", steps, facts)
            self.started.append(observer)

    def send(self, event: str, *facts: Any) -> None:
        """Call ``stepped``, ``evaluated``, ``stage_started`` or ``noted`` with its arguments."""
        for observer in self.started:
            _call(observer, event, *facts)

    def evaluation(self, split: str, examples: int) -> Callable[[int], None]:
        """Call ``evaluating``; the returned function calls it again, with so many more examples done."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.send("evaluating", split, done, examples)

        advance(0)
        return advance

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Call ``finished`` of every observer that was started; the first error is raised when all were called."""
        first: CrvnnError | None = None
        while self.started:
            try:
                _call(self.started.pop(0), "finished", facts)
            except CrvnnError as error:
                first = first or error
        if first is not None:
            raise first


def _call(observer: Observer, event: str, *facts: Any) -> None:
    try:
        getattr(observer, event)(*facts)
    except CrvnnError:
        raise
    except FAILURES as error:
        name = type(observer).__name__
        raise PluginError(f"observer {name} failed in '{event}': {raised_at(error)}") from error


class JsonLines(Observer):
    """Appends a JSON object to a file for each training step, development result and note.

    Each has a ``step`` and a ``kind``: ``train``, ``dev`` or ``note``. When a run is resumed, records after the step of
    its checkpoint are removed first, so that no step is logged twice.

    :param path: of the file.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._file: IO[str] | None = None
        self._step = 0

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._step = facts.get("step", 0)
        # A file in the run's own directory belongs to this run alone; one elsewhere may be shared by several runs.
        directory = facts.get("directory")
        inside = directory is not None and self.path.resolve().is_relative_to(Path(directory).resolve())
        own = self._step > 0 or inside
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file():  # not a device or a pipe
                # A run that begins, even again, has no records yet.
                last = (self._step or -1) if own else math.inf
                with (
                    replacing(self.path) as temporary,
                    temporary.open("wb") as file,
                    self.path.open("rb") as lines,
                ):
                    file.writelines(line for line in lines if _is_kept(line, last))
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise CrvnnError(f"{self.path} cannot be written: {error}") from error

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._write("train", metrics)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._write("dev", metrics)

    def noted(self, message: str) -> None:
        self._write("note", {"message": message})

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, kind: str, content: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        record = {"step": self._step, "kind": kind}
        record |= {name: finite(value) for name, value in content.items()}
        try:
            print(json.dumps(record), file=self._file, flush=True)
        except OSError as error:
            with contextlib.suppress(OSError):  # closing flushes again
                self.finished({})
            self._file = None
            raise CrvnnError(f"{self.path} cannot be written: {error}") from error


def _is_kept(line: bytes, last: float) -> bool:
    """Whether a line is whole, and not the record of a step after ``last``."""
    if not line.endswith(b"\n"):
        return not line.startswith(b"{")  # partially written by a run that was killed
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return True  # not one of our records
    return not isinstance(step, int) or step <= last
