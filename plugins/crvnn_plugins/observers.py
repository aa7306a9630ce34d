"""Observers: what is shown and kept of a training run while it goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crvnn_core import Observer

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress(Observer):
    """A progress bar on a terminal; a plain line now and then in a pipe.

    :param lines: how many lines to print over the whole run when there is no terminal.
    """

    def __init__(self, lines: int = 10) -> None:
        if lines < 1:
            raise ValueError(f"lines must be at least 1, not {lines}")
        self.lines = lines
        self._bar: Bar | None = None
        self._steps = 0

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        from rich.progress import Progress as Bar
        from rich.progress import TextColumn, TimeRemainingColumn

        self._steps = steps
        if sys.stderr.isatty():
            from rich.console import Console

            columns = (
                *Bar.get_default_columns()[:-1],
                TimeRemainingColumn(),
                TextColumn("{task.fields[metrics]}"),
            )
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._bar.add_task("training", total=steps, metrics="")
            self._bar.start()

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        shown = "  ".join(f"{name} {value:.3g}" for name, value in metrics.items())
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=step, metrics=shown)
        elif step * self.lines // self._steps > (step - 1) * self.lines // self._steps:
            print(f"step {step} of {self._steps}  {shown}", file=sys.stderr, flush=True)

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class JsonLines(Observer):
    """One JSON object a step, appended to a file as it happens.

    :param path: of the file.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._file: IO[str] | None = None

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._file is not None:
            print(json.dumps({"step": step, **metrics}), file=self._file, flush=True)

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
