"""Dispatch of training events to observers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crvnn_core.errors import FAILURES, CrvnnError, PluginError, raised_at
from crvnn_core.interfaces import Observer


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
        """Call ``stepped``, ``evaluated`` or ``noted`` with its arguments."""
        for observer in self.started:
            _call(observer, event, *facts)

    def finish(self) -> None:
        """Call ``finished`` of every observer that was started; the first error is raised when all were called."""
        first: CrvnnError | None = None
        while self.started:
            try:
                _call(self.started.pop(0), "finished", {})
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
