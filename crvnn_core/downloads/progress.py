"""Progress of a download: a bar on a terminal, plain lines in a pipe or a log file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

import click


class Progress(Protocol):
    """Receives the progress of downloads, one file after the other."""

    def began(self, file: str, done: int, total: int | None) -> None:
        """A transfer begins or resumes with ``done`` bytes present; ``total`` is ``None`` if unknown."""

    def moved(self, count: int) -> None:
        """``count`` more bytes have been written."""

    def noted(self, message: str) -> None:
        """Something happened that the user should know, such as a retry."""


class Lines:
    """Prints one line to standard error when a transfer begins, and another every ten seconds."""

    interval = 10.0  # seconds

    def __init__(self) -> None:
        self.file, self.done, self.printed = "", 0, 0.0
        self.total: int | None = None

    def began(self, file: str, done: int, total: int | None) -> None:
        self.file, self.done, self.total, self.printed = file, done, total, time.monotonic()
        present = f", {format_bytes(done)} already present" if done else ""
        self.noted(f"downloading {file}{f' ({format_bytes(total)}{present})' if total else ''}")

    def moved(self, count: int) -> None:
        self.done += count
        if time.monotonic() - self.printed >= self.interval:
            self.printed = time.monotonic()
            of = f" of {format_bytes(self.total)}" if self.total else ""
            self.noted(f"{self.file}: {format_bytes(self.done)}{of}")

    def noted(self, message: str) -> None:
        click.echo(message, err=True)


class Bar:
    """Draws a progress bar of ``rich`` for the file that is being transferred."""

    def __init__(self, progress: Any) -> None:
        self.progress, self.task = progress, None

    def began(self, file: str, done: int, total: int | None) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(file, completed=done, total=total)

    def moved(self, count: int) -> None:
        self.progress.advance(self.task, count)

    def noted(self, message: str) -> None:
        self.progress.console.print(message, markup=False, highlight=False)


@contextlib.contextmanager
def show_progress() -> Iterator[Progress]:
    """A ``Bar`` if standard error is a terminal, otherwise ``Lines``."""
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    with rich_progress.Progress(*columns, console=console, transient=True) as drawn:
        yield Bar(drawn)


def format_bytes(count: int) -> str:
    """A number of bytes with a decimal unit, as in ``2.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
