"""The observer ``progress``: training metrics as a progress bar or as lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crvnn_core import Observer

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

#: How to print each metric; others are printed with their name.
_FORMATS: dict[str, Callable[[float], str]] = {
    "loss": lambda value: f"loss {value:.3f}",
    "accuracy": lambda value: f"accuracy {value:.1%}",
    "depth": lambda value: f"depth {value:.1f}",
    "tokens_per_second": lambda value: f"{value:,.0f} tokens/s",
}
_DECAY = 0.95  # of the exponential moving average: about 20 steps
_SMOOTHED = ("loss", "accuracy", "tokens_per_second")


class Progress(Observer):
    """A progress bar on a terminal, a few plain lines in a pipe or log file.

    Loss, accuracy and speed are exponential moving averages over about 20 steps. Results on the development split and
    messages are printed on lines of their own.

    :param lines: how many lines to print over the whole run, or each of its stages, when there is no terminal.
    """

    def __init__(self, lines: int = 10) -> None:
        if lines < 1:
            raise ValueError(f"lines must be at least 1, not {lines}")
        self.lines = lines
        self._bar: Bar | None = None
        self._step = self._first = self._steps = 0  # the current, first and last one of the stage
        self._means: dict[str, float] = {}

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._step = self._first = 0
        self._steps = steps
        self._means = {}
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.add_task("training", total=steps, completed=facts.get("step", 0), metrics="")
            self._bar.start()

    def stage_started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._first, self._steps = self._step, steps
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=steps)

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._smooth(metrics)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=step, metrics=self._shown(metrics))
        elif self._is_line(step):
            self._print(f"step {step} of {self._steps}  {self._shown(metrics)}")

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self._print(f"step {step} of {self._steps}  development: {_show(metrics)}")

    def noted(self, message: str) -> None:
        self._print(message)

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _is_line(self, step: int) -> bool:
        """Whether a step is the last of an interval: there are as many in a stage as lines to print."""
        done, steps = step - self._first, self._steps - self._first
        return done * self.lines // steps > (done - 1) * self.lines // steps

    def _smooth(self, metrics: Mapping[str, float]) -> None:
        for name in _SMOOTHED:
            if name in metrics:
                mean = self._means.get(name, metrics[name])
                self._means[name] = _DECAY * mean + (1 - _DECAY) * metrics[name]

    def _shown(self, metrics: Mapping[str, float]) -> str:
        return _show({**metrics, **self._means})

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)


def _bar() -> Bar:
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


def _show(metrics: Mapping[str, float]) -> str:
    """The metrics as text, without the learning rate, which is in the metrics file."""
    shown = [
        _FORMATS[name](value) if name in _FORMATS else f"{name} {value:.3g}"
        for name, value in metrics.items()
        if name != "learning_rate"
    ]
    return "  ".join(shown)
