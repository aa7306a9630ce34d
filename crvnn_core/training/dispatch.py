"""Telling observers what happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crvnn_core.errors import FAILURES, CrvnnError, PluginError, raised_at
from crvnn_core.interfaces import Observer


class Audience:
    """Observers, and those of them for whom training has started."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.invited = list(observers)
        self.present: list[Observer] = []

    def start(self, steps: int, facts: Mapping[str, Any]) -> None:
        """Training begins."""
        for observer in self.invited:
            _call(observer, "started", steps, facts)
            self.present.append(observer)

    def tell(self, event: str, *facts: Any) -> None:
        """``stepped``, ``evaluated`` or ``noted``, with what belongs to it."""
        for observer in self.present:
            _call(observer, event, *facts)

    def dismiss(self) -> None:
        """Training has ended: everyone is told, and the first complaint is heard afterwards."""
        complaint: CrvnnError | None = None
        while self.present:
            try:
                _call(self.present.pop(0), "finished", {})
            except CrvnnError as error:
                complaint = complaint or error
        if complaint is not None:
            raise complaint


def _call(observer: Observer, event: str, *facts: Any) -> None:
    try:
        getattr(observer, event)(*facts)
    except CrvnnError:
        raise
    except FAILURES as error:
        name = type(observer).__name__
        raise PluginError(f"observer {name} failed in '{event}': {raised_at(error)}") from error
