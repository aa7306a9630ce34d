"""Which plug-in made which record: the functions of hooks, wrapped so that records and errors name their source."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from crvnn_core.errors import FAILURES, PluginError, raised_at

#: Ends the record of a plug-in that is an object of the program.
IN_MEMORY = " (in memory)"


@frozen
class Source:
    """Where a record comes from: the plug-in, and the name and version of its package."""

    plugin: str
    package: str
    version: str
    in_memory: bool = False  # an object of the program, which no installed package has

    def __str__(self) -> str:
        return f"{self.package} {self.version}".strip()

    @property
    def recorded(self) -> str:
        """Package and version, as the environment of a run records them."""
        return f"{self}{IN_MEMORY}" if self.in_memory else str(self)

    @property
    def title(self) -> str:
        """The plug-in and its package, for messages."""
        return f"plug-in '{self.plugin}' ({self})"


class HookError(PluginError):
    """A hook failed; the message names it and its plug-in."""


@define
class Attribution:
    """The source of every record that a hook call returned.

    Records are told apart by identity and stay as the plug-ins made them. So a wrapper sees plain lists of records,
    which it may filter, reorder, replace and extend; a record that it passes on keeps its source, and a record
    that it makes is its own.
    """

    _sources: dict[int, list[Source]] = field(factory=dict)
    _records: list[object] = field(factory=list)  # kept, since the id of a deleted object can be used again
    #: The hook and the plug-in that are being called.
    current: str = ""

    def clear(self) -> None:
        """Forget the records of the last hook call."""
        self._sources.clear()
        self._records.clear()

    def source_of(self, record: object) -> Source:
        """The source of ``record``; if several plug-ins returned it, the next of them at each call."""
        sources = self._sources[id(record)]
        return sources.pop(0) if len(sources) > 1 else sources[0]

    def _add(self, record: object, source: Source) -> None:
        self._sources.setdefault(id(record), []).append(source)
        self._records.append(record)

    def implementation(
        self, function: Callable[[], Any], title: str, source: Source
    ) -> Callable[[], list[Any]]:
        """The function of a hook, with its records attributed to ``source`` and its errors to ``title``."""

        @functools.wraps(function)
        def call() -> list[Any]:
            self.current = title
            with naming(title, source):
                returned = function()
                records = _listed(returned)
            if records is None:
                raise HookError(f"{title} returned {returned!r}, which is no list", [source])
            for record in records:
                self._add(record, source)
            return records

        return call

    def wrapper(
        self, function: Callable[[], Generator[None, Any, Any]], title: str, source: Source
    ) -> Callable[[], Generator[None, Any, list[list[Any]]]]:
        """The same for a hook wrapper, a generator that receives the lists of all plug-ins and returns such lists."""

        @functools.wraps(function)
        def call() -> Generator[None, Any, list[list[Any]]]:
            self.current = title
            with naming(title, source):
                returned = yield from _one_yield(function(), title, source)
                lists = _listed(returned)
                found = [records for each in lists or [] if (records := _listed(each)) is not None]
            if lists is None or len(found) < len(lists):
                raise HookError(
                    f"{title}, a wrapper, returned {returned!r}; it must return a list of lists of records, "
                    "one for each plug-in, as it receives from 'yield'",
                    [source],
                )
            for record in (record for records in found for record in records):
                if id(record) not in self._sources:
                    self._add(record, source)
            return found

        return call


def _listed(returned: Any) -> list[Any] | None:
    """The records of any iterable; nothing if it is none."""
    return list(returned) if isinstance(returned, Iterable) else None


@contextlib.contextmanager
def naming(title: str, source: Source) -> Iterator[None]:
    """Turn whatever a plug-in raises into an error that begins with ``title``."""
    try:
        yield
    except HookError:  # of a plug-in that this one wraps
        raise
    except FAILURES as error:
        raise HookError(f"{title} raised {raised_at(error)}", [source]) from error


def _one_yield(generator: Generator[None, Any, Any], title: str, source: Source) -> Generator[None, Any, Any]:
    """Run a hook wrapper as pluggy would, but name it if it does not yield exactly once."""
    wrong = HookError(f"{title}, a wrapper, must yield exactly once", [source])
    try:
        next(generator)
    except StopIteration:
        raise wrong from None
    try:
        received = yield
    except BaseException as error:
        resume: Callable[[], None] = functools.partial(generator.throw, error)
    else:
        resume = functools.partial(generator.send, received)
    try:
        resume()
    except StopIteration as stop:
        return stop.value
    generator.close()
    raise wrong
