"""The observer ``progress``: training metrics as a progress bar or as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crvnn_core import Observer
from crvnn_core.annotations import Count, Weight, check_ranges
from crvnn_core.display.progress import Pace, new_progress
from crvnn_core.display.progress import Progress as Bar

#: How to print each metric; others are printed with their name.
_FORMATS: dict[str, Callable[[float], str]] = {
    "loss": lambda value: f"loss {value:.3f}",
    "accuracy": lambda value: f"accuracy {value:.1%}",
    "depth": lambda value: f"depth {value:.1f}",
    "constituents": lambda value: f"constituents {value:.1%}",
    "hard": lambda value: f"hard {value:.1%}",
    "tokens_per_second": lambda value: f"{value:,.0f} tokens/s",
}
_DECAY = 0.95  # of the exponential moving average: about 20 steps
_SMOOTHED = ("loss", "accuracy", "tokens_per_second")


class Progress(Observer):
    """A progress bar on a terminal or in a notebook, plain lines in a pipe or log file.

    The first line names components, parameters and steps; the others say how much time is left. Loss, accuracy and
    speed are exponential moving averages over about 20 steps. Results on the development split and messages are
    printed on lines of their own.

    :param lines: how many lines to print at least over the whole run, or each of its stages, where there is no bar.
    :param seconds: print another line after so many seconds without one, also during an evaluation; 0 for never.
    """

    @check_ranges
    def __init__(self, lines: Count = 10, seconds: Weight = 30.0) -> None:
        self.lines, self.seconds = lines, seconds
        self._bar: Bar | None = None
        self._evaluation = Pace()
        self._step = self._steps = 0  # the current one, and the last one of the stage
        self._means: dict[str, float] = {}

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._step, self._steps, self._means = facts.get("step", 0), steps, {}
        self._bar = new_progress(
            steps,
            "step",
            form="{what} {done} of {total}",
            unit=str,
            stays=True,
            lines=self.lines,
            interval=self.seconds,
        )
        self._bar.print(_heading(steps, facts))
        self._bar.begin(steps, done=self._step)

    def stage_started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._steps = steps
        if self._bar is not None:
            self._bar.begin(steps, done=self._step)

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        self._smooth(metrics)
        if self._bar is not None:
            self._bar.show(step, _show({**metrics, **self._means}))

    def evaluating(self, split: str, done: int, examples: int) -> None:
        if done == 0:
            self._evaluation = Pace()
        left = self._evaluation.left(done, examples)
        if self._bar is not None:
            text = f"evaluating {split}: {done:,} of {examples:,}{f', {left} left' if left else ''}"
            self._bar.status(text if done < examples else "")

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self.noted(f"step {step} of {self._steps}  development: {_show(metrics)}")

    def noted(self, message: str) -> None:
        if self._bar is not None:
            self._bar.print(message)

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _smooth(self, metrics: Mapping[str, float]) -> None:
        for name in _SMOOTHED:
            if name in metrics:
                mean = self._means.get(name, metrics[name])
                self._means[name] = _DECAY * mean + (1 - _DECAY) * metrics[name]


def _heading(steps: int, facts: Mapping[str, Any]) -> str:
    """``listops, encoder crvnn, cell gated, ...: 77,123 parameters, seed 0, 560 steps``."""
    parts = dict(facts.get("components", {}))
    task = parts.pop("task", "training")
    named = ", ".join([task, *(f"{slot} {name}" for slot, name in parts.items())])
    known = [f"{facts['parameters']:,} parameters"] if "parameters" in facts else []
    known += [f"seed {facts['seed']}"] if "seed" in facts else []
    stages = len(facts.get("spec", {}).get("stages", ()))
    known += [f"stage {facts['stage']} of {stages} to step {steps:,}" if stages else f"{steps:,} steps"]
    known += [f"from step {facts['step']:,}"] if facts.get("step") else []
    return f"{named}: {', '.join(known)}"


def _show(metrics: Mapping[str, float]) -> str:
    """The metrics as text, without learning rate and seconds, which are in the metrics file."""
    shown = [
        _FORMATS[name](value) if name in _FORMATS else f"{name} {value:.3g}"
        for name, value in metrics.items()
        if name not in ("learning_rate", "seconds")
    ]
    return "  ".join(shown)
