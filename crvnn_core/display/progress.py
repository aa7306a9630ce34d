"""How far something has come: a bar on a terminal or in a notebook, lines elsewhere. All write to standard error.

Most work is counted with ``counting``. A ``Progress`` from ``new_progress`` can also begin another stretch, show a text
beside the position, and print lines that stay.
"""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_FIRST = 2.0  # seconds to the first line with the time left, where lines are spread


def format_bytes(count: int) -> str:
    """A number of bytes with a decimal unit, as in ``2.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


class Pace:
    """How long what is left will take, if it takes as long as what was done."""

    def __init__(self, done: int = 0) -> None:
        self.first, self.began = done, time.monotonic()

    def left(self, done: int, total: int | None) -> str:
        """The time left as ``1:23:45``; empty before anything is done and when everything is."""
        if total is None or not self.first < done < total:
            return ""
        seconds = round((time.monotonic() - self.began) * (total - done) / (done - self.first))
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


class Progress:
    """How much of a total is done. Call it with the number of items that have been done since the last call.

    :param total: ``None`` if it is not known.
    :param what: is being counted.
    :param form: the position as lines and notebooks show it; bars on a terminal have less room.
    :param unit: writes a number of items.
    :param stays: leave the bar on the terminal, and give the room of its title to the text beside it.
    """

    interval = 0.0  #: seconds between two updates

    def __init__(
        self,
        total: int | None,
        what: str,
        *,
        form: str = "{what}: {done} of {total}",
        unit: Callable[[int], str] = "{:,}".format,
        stays: bool = False,
    ) -> None:
        self.form, self.unit, self.stays = form, unit, stays
        self.text = self.meanwhile = ""
        self._set(total, what, 0)

    def __call__(self, count: int = 1) -> None:
        """Count items as done."""
        self.show(self.done + count, self.text)

    def begin(self, total: int | None, what: str | None = None, done: int = 0) -> None:
        """Begin another stretch: the next stage, the next file."""
        self._set(total, self.what if what is None else what, done)
        self._draw()

    def show(self, done: int, text: str = "") -> None:
        """So many items are done, and a text to show beside that."""
        self.done, self.text, self.meanwhile = done, text, ""
        self._update()

    def status(self, text: str) -> None:
        """What is going on between two items, shown in the place of the text and the time left."""
        self.meanwhile = text
        self._update()

    def print(self, line: str) -> None:
        """Print a line that stays, above a bar."""
        raise NotImplementedError

    def stop(self) -> None:
        """Put the bar away."""

    def __str__(self) -> str:
        """``predicting: 20 of 300  0:12 left``."""
        form = self.form if self.total is not None else "{what}: {done}"
        total = "" if self.total is None else self.unit(self.total)
        position = form.format(what=self.what, done=self.unit(self.done), total=total)
        left = self.pace.left(self.done, self.total)
        beside = [self.meanwhile] if self.meanwhile else [self.text, f"{left} left" if left else ""]
        return "  ".join(filter(None, [position, *beside]))

    def _set(self, total: int | None, what: str, done: int) -> None:
        self.total, self.what, self.first, self.done = total, what, done, done
        self.pace = Pace(done)
        self.drawn = self.pace.began

    def _update(self) -> None:
        """Draw the position, unless that was done a moment ago."""
        if self.done == self.total or time.monotonic() - self.drawn >= self.interval:
            self.drawn = time.monotonic()
            self._draw()

    def _draw(self) -> None:
        """Show the position now."""


class Lines(Progress):
    """Plain lines: one whenever so many seconds have passed without, and a number of them spread over each stretch.

    :param lines: to spread.
    :param interval: in seconds; 0 for no lines but those.
    """

    interval = 30.0

    def __init__(
        self, total: int | None, what: str, *, lines: int = 0, interval: float | None = None, **options: Any
    ) -> None:
        self.lines = lines
        self.interval = self.interval if interval is None else interval
        super().__init__(total, what, **options)

    def print(self, line: str) -> None:
        self.drawn = time.monotonic()
        print(line, file=sys.stderr, flush=True)

    def show(self, done: int, text: str = "") -> None:
        ends_part = self._parts(done) > self._parts(self.done)
        self.done, self.text, self.meanwhile = done, text, ""
        if ends_part or self._is_due():
            self.print(str(self))

    def status(self, text: str) -> None:
        self.meanwhile = text
        if text and self._is_due():
            self.print(str(self))

    def _set(self, total: int | None, what: str, done: int) -> None:
        super()._set(total, what, done)
        if self.lines:
            self.drawn -= max(self.interval - _FIRST, 0)

    def _is_due(self) -> bool:
        return self.interval > 0 and time.monotonic() - self.drawn >= self.interval

    def _parts(self, done: int) -> int:
        """How many parts of the stretch are complete: there are as many as lines to spread."""
        return (done - self.first) * self.lines // max((self.total or 0) - self.first, 1)


class TerminalBar(Progress):
    """A bar on the last line of a terminal, which shrinks in favour of the text if the terminal is narrow."""

    def __init__(self, total: int | None, what: str, **options: Any) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            ProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        super().__init__(total, what, **options)

        def text(form: str) -> TextColumn:
            return TextColumn(form, markup=False, table_column=Column(no_wrap=True))

        columns: list[ProgressColumn] = [
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            text("{task.fields[position]}"),
        ]
        if not self.stays:  # the time elapsed moves even while a single item takes minutes
            columns = [text("{task.description}"), *columns, TimeElapsedColumn()]
        columns += [
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            text("{task.fields[beside]}"),
        ]
        self.bar = RichProgress(
            *columns,
            console=Console(stderr=True),
            expand=True,
            transient=not self.stays,
            speed_estimate_period=600,
        )
        self.task = self.bar.add_task(what, total=total, position="", beside="")
        self._draw()
        self.bar.start()

    def begin(self, total: int | None, what: str | None = None, done: int = 0) -> None:
        self.bar.reset(self.task, total=total, completed=done)
        super().begin(total, what, done)

    def print(self, line: str) -> None:
        self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        self.bar.stop()

    def _draw(self) -> None:
        of = "" if self.total is None else f"/{self.unit(self.total)}"
        self.bar.update(
            self.task,
            description=self.what,
            completed=self.done,
            position=f"{self.unit(self.done)}{of}",
            beside=self.meanwhile or self.text,
        )


class NotebookBar(Progress):
    """A bar in the output of a notebook's cell, which it leaves at the end, with the lines that stay above it."""

    interval = 0.2  # each update is a message to the browser

    def __init__(self, total: int | None, what: str, **options: Any) -> None:
        from IPython.display import display

        super().__init__(total, what, **options)
        self.lines: list[str] = []
        self.output: Any = display(self._page(), display_id=True)

    def print(self, line: str) -> None:
        self.lines.append(line)
        self._draw()

    def stop(self) -> None:
        self._draw()

    def _draw(self) -> None:
        self.output.update(self._page())

    def _page(self) -> Any:
        from IPython.display import HTML

        lines = "".join(f"<div>{html.escape(line)}</div>" for line in self.lines)
        bar = f'<progress value="{self.done}" max="{max(self.total or 0, 1)}" style="width: 16em"></progress>'
        return HTML(f"<div>{lines}<div>{bar} {html.escape(str(self))}</div></div>")


def new_progress(
    total: int | None, what: str, *, lines: int = 0, interval: float | None = None, **options: Any
) -> Progress:
    """A bar on a terminal or in a notebook, ``Lines`` elsewhere; call ``stop`` at the end.

    :param lines: and ``interval`` are for ``Lines``, the other options for every ``Progress``.
    """
    if in_notebook():
        return NotebookBar(total, what, **options)
    if sys.stderr.isatty():
        return TerminalBar(total, what, **options)
    return Lines(total, what, lines=lines, interval=interval, **options)


@contextlib.contextmanager
def counting(total: int | None, what: str, **options: Any) -> Iterator[Progress]:
    """A bar on a terminal or in a notebook, a line every half minute elsewhere, while this context lasts.

    Call what it gives with the number of items done.

    :param options: of ``new_progress``.
    """
    progress = new_progress(total, what, **options)
    try:
        yield progress
    finally:
        progress.stop()


@contextlib.contextmanager
def shown(
    progress: bool, total: int, what: str, done: Callable[[int], None] | None = None
) -> Iterator[Callable[[int], None]]:
    """What to call with the number of items done: it calls ``done``, and counts visibly if ``progress`` is true."""
    with counting(total, what) if progress else contextlib.nullcontext() as count:

        def call_both(number: int) -> None:
            for each in (count, done):
                if each is not None:
                    each(number)

        yield call_both


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose cells can show HTML."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")
