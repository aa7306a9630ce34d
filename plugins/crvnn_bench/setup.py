"""What is measured: which weights, how deep, on what; plain data, so that a process of its own can be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import asdict, field, frozen

#: Stands for weights that were never trained.
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
    """How the models of a measurement are made; equal setups and seeds make equal models."""

    #: A run directory or the name of an installed model, or ``untrained``.
    weights: str = UNTRAINED
    #: The variant and the width that untrained weights are for; trained ones bring their own.
    preset: str = "paper"
    width: int = 128
    #: Whether a sequence may stop before its steps run out.
    halting: bool = True
    #: The most steps of a sequence; 0 for no limit but its length.
    max_steps: int = 0
    seed: int = 0
    device: str = "cpu"
    #: Of torch; 0 for its own choice.
    threads: int = 0
    #: Plug-in files to load.
    plugins: tuple[str, ...] = field(default=(), converter=_texts)

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    @property
    def depth(self) -> str:
        """How deep the recursion goes, in words."""
        if self.halting:
            return f"halting on, at most {self.max_steps} steps" if self.max_steps else "halting on"
        return f"halting off, {self.max_steps} steps" if self.max_steps else "halting off, n - 1 steps"
