"""What is measured: weights, depth and device, as plain data that can be passed to another process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import asdict, field, frozen

#: In place of a run: freshly initialised weights.
UNTRAINED = "untrained"
#: The depth with halting off, unless another is asked for: n - 1 steps of long sequences take minutes.
HALTING_OFF_STEPS = 32
#: The lengths of the paper's speed test, and how many expressions of each it has.
RANGES = ("81-100", "101-200", "201-500", "501-700", "701-1000")
SAMPLES = 50


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@frozen(kw_only=True)
class Setup:
    """How the models of a measurement are built; equal setups build equal models."""

    #: A run directory or the name of an installed model, or ``untrained``.
    weights: str = UNTRAINED
    #: The preset and the width of untrained models; trained ones have their own.
    preset: str = "paper"
    width: int = 128
    #: Whether a sequence may halt before its step limit.
    halting: bool = True
    #: The most recursion steps of a sequence; 0 for no limit but its length.
    max_steps: int = 0
    seed: int = 0
    device: str = "cpu"
    #: Threads of torch; 0 for torch's default.
    threads: int = 0
    #: Plug-in files to load.
    plugins: tuple[str, ...] = field(default=(), converter=_texts)

    def plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return asdict(self)

    @property
    def depth(self) -> str:
        """Halting and step limit in words, for tables."""
        if self.halting:
            return f"halting on, at most {self.max_steps} steps" if self.max_steps else "halting on"
        return f"halting off, {self.max_steps} steps" if self.max_steps else "halting off, n - 1 steps"
