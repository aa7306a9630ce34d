"""How far something has come: a bar on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal or in a notebook, a line every half minute elsewhere; on standard error.

    Call the function with the number of items done.
    """
    if in_notebook():
        yield NotebookBar(total, what)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        lines = Lines(total, what)
        with lines.alive():
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),  # moves even while a single long text takes minutes
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task(what, total=total)
        yield lambda number: bar.advance(task, number)


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


class Counter:
    """Counts items, and says how many are done and how long the rest will take, if it takes as long as these did."""

    interval: float  # seconds between two messages

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.began = self.shown = time.monotonic()

    def __call__(self, number: int) -> None:
        """Count items as done."""
        self.done += number
        now = time.monotonic()
        if now - self.shown >= self.interval and self.done:
            self.shown = now
            self.show()

    def show(self) -> None:
        """Show how many are done."""
        raise NotImplementedError

    def __str__(self) -> str:
        text = f"{self.what}: {self.done:,} of {self.total:,}"
        if not 0 < self.done < self.total:
            return text
        left = round((self.shown - self.began) * (self.total - self.done) / self.done)
        return f"{text}, {left // 60}:{left % 60:02} left"


class Lines(Counter):
    """Prints a line every half minute, and within ``alive`` even while a single item takes longer."""

    interval = 30.0

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Say every half minute how long it has taken so far, unless an item was done meanwhile."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(self.interval):
                now = time.monotonic()
                if now - self.shown >= self.interval:
                    self.shown = now
                    took = round(now - self.began)
                    print(f"{self}, {took // 60}:{took % 60:02} so far", file=sys.stderr, flush=True)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join()

    def show(self) -> None:
        print(self, file=sys.stderr, flush=True)


class NotebookBar(Counter):
    """A bar in the output of a notebook's cell, which it leaves at the end."""

    interval = 0.2  # each update is a message to the browser

    def __init__(self, total: int, what: str) -> None:
        from IPython.display import display

        super().__init__(total, what)
        self.output: Any = display(self._page(), display_id=True)

    def __call__(self, number: int) -> None:
        super().__call__(number)
        if self.done >= self.total:
            self.show()

    def show(self) -> None:
        self.output.update(self._page())

    def _page(self) -> Any:
        import html

        from IPython.display import HTML

        bar = f'<progress value="{self.done}" max="{max(self.total, 1)}" style="width: 16em"></progress>'
        return HTML(f"<div>{bar} {html.escape(str(self))}</div>")
