"""Where progress is shown: a bar on a terminal, a bar in a notebook, or plain lines. All write to standard error."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_FIRST = 2.0  # seconds to the first line with the time left


class Display(Protocol):
    """Shows how far training has come."""

    def begin(self, step: int, steps: int) -> None:
        """A run begins at ``step``, or one of its stages; it ends at step ``steps``."""

    def show(self, step: int, text: str) -> None:
        """``step`` steps are done, and ``text`` is what to show beside that."""

    def evaluate(self, split: str, done: int, examples: int) -> None:
        """An evaluation has come so far."""

    def print(self, line: str) -> None:
        """Print a line that stays."""

    def stop(self) -> None:
        """Training has ended."""


class Pace:
    """How long what is left will take, if it takes as long as what was done."""

    def __init__(self, done: int = 0) -> None:
        self.first, self.began = done, time.monotonic()

    def left(self, done: int, total: int) -> str:
        """The time left as ``1:23:45``; empty before anything is done."""
        if done <= self.first:
            return ""
        seconds = round((time.monotonic() - self.began) * (total - done) / (done - self.first))
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"


class Lines:
    """Plain lines: a number of them spread over the steps, and one whenever so many seconds have passed without.

    :param lines: of a run, or of each of its stages.
    :param seconds: 0 for no other lines.
    """

    def __init__(self, lines: int, seconds: float) -> None:
        self.lines, self.seconds = lines, seconds
        self.first = self.step = self.steps = 0
        self.pace = self.evaluation = Pace()
        self.due = 0.0

    def begin(self, step: int, steps: int) -> None:
        self.first, self.step, self.steps = step, step, steps
        self.pace = Pace(step)
        self.due = time.monotonic() + min(self.seconds, _FIRST)

    def show(self, step: int, text: str) -> None:
        self.step = step
        if self._is_last_of_interval(step) or self._is_due():
            left = self.pace.left(step, self.steps)
            self.print(f"{self._position()}  {text}" + (f"  {left} left" if step < self.steps else ""))

    def evaluate(self, split: str, done: int, examples: int) -> None:
        if done == 0:
            self.evaluation = Pace()
        elif done < examples and self._is_due():
            left = self.evaluation.left(done, examples)
            self.print(f"{self._position()}  evaluating {split}: {done:,} of {examples:,}, {left} left")

    def print(self, line: str) -> None:
        self.due = time.monotonic() + self.seconds
        print(line, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Nothing to put away."""

    def _position(self) -> str:
        return f"step {self.step} of {self.steps}"

    def _is_due(self) -> bool:
        return self.seconds > 0 and time.monotonic() >= self.due

    def _is_last_of_interval(self, step: int) -> bool:
        """Whether a step is the last of an interval: there are as many in a stage as lines to print."""
        done, steps = step - self.first, max(self.steps - self.first, 1)
        return done * self.lines // steps > (done - 1) * self.lines // steps


class TerminalBar:
    """A bar on the last line of a terminal; lines that stay are printed above it."""

    def __init__(self) -> None:
        self.bar = _rich_bar()
        self.task = self.bar.add_task("training", total=0, metrics="")
        self.bar.start()

    def begin(self, step: int, steps: int) -> None:
        self.bar.update(self.task, total=steps, completed=step)

    def show(self, step: int, text: str) -> None:
        self.bar.update(self.task, completed=step, metrics=text)

    def evaluate(self, split: str, done: int, examples: int) -> None:
        self.bar.update(self.task, metrics=f"evaluating {split}: {done / examples:.0%}")

    def print(self, line: str) -> None:
        self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        self.bar.stop()


def _rich_bar() -> RichProgress:
    """A progress bar that shrinks in favour of the metrics if the terminal is narrow."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[metrics]}", markup=False, table_column=Column(no_wrap=True)),
        console=Console(stderr=True),
        expand=True,
    )


class NotebookBar:
    """A bar in the output of a notebook's cell, with the lines that stay above it."""

    interval = 0.2  # seconds between two updates: each is a message to the browser

    def __init__(self) -> None:
        from IPython.display import display

        self.lines: list[str] = []
        self.step = self.steps = 0
        self.text = ""
        self.pace = Pace()
        self.drawn = 0.0
        self.output: Any = display(self._page(), display_id=True)

    def begin(self, step: int, steps: int) -> None:
        self.step, self.steps, self.pace = step, steps, Pace(step)
        self._draw()

    def show(self, step: int, text: str) -> None:
        self.step, self.text = step, text
        self._draw(throttled=step < self.steps)

    def evaluate(self, split: str, done: int, examples: int) -> None:
        self.text = f"evaluating {split}: {done:,} of {examples:,}"
        self._draw(throttled=0 < done < examples)

    def print(self, line: str) -> None:
        self.lines.append(line)
        self._draw()

    def stop(self) -> None:
        self._draw()

    def _draw(self, throttled: bool = False) -> None:
        if not throttled or time.monotonic() - self.drawn >= self.interval:
            self.drawn = time.monotonic()
            self.output.update(self._page())

    def _page(self) -> Any:
        from IPython.display import HTML

        left = self.pace.left(self.step, self.steps) if self.step < self.steps else ""
        shown = [f"{self.step:,} of {self.steps:,}", *([f"{left} left"] if left else []), self.text]
        lines = "".join(f"<div>{html.escape(line)}</div>" for line in self.lines)
        bar = f'<progress value="{self.step}" max="{max(self.steps, 1)}" style="width: 16em"></progress>'
        return HTML(f"<div>{lines}<div>{bar} {html.escape('  '.join(shown))}</div></div>")
