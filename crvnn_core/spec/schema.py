"""What a spec can say. Equal specs and seeds build equal models.

Fields that name components are explained by their slots (``crvnn_core.host.slots``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from crvnn_core.errors import Origin, Path_, Problem, nearest


def between(low: float, high: float = math.inf) -> Callable[[Any, Any, float], None]:
    """A validator for numbers from ``low`` to ``high``."""
    limits = f"at least {low}" + ("" if high == math.inf else f" and at most {high}")

    def check(instance: Any, attribute: Any, value: float) -> None:
        if not low <= value <= high:
            raise ValueError(f"must be {limits}, not {value}")

    check.__doc__ = limits
    return check


def one_of(*choices: str) -> Callable[[Any, Any, str], None]:
    """A validator for a text that must be one of a few."""
    listed = f"one of {', '.join(choices)}"

    def check(instance: Any, attribute: Any, value: str) -> None:
        if value not in choices:
            raise ValueError(f"must be {listed}, not {value!r}.{nearest(value, choices)}")

    check.__doc__ = listed
    return check


def above_zero(instance: Any, attribute: Any, value: float) -> None:
    """above 0"""
    if not value > 0:
        raise ValueError(f"must be above 0, not {value}")


@frozen
class PartSpec:
    """A component by name, and its parameters."""

    name: str
    params: Mapping[str, Any] = field(factory=dict)
    #: Where it stands in a spec, and who wrote it (under "") and each of its parameters there; for messages.
    path: Path_ = field(default=(), eq=False, repr=False)
    places: Mapping[str, Origin] = field(factory=dict, eq=False, repr=False)

    def problem(self, title: str, what: str) -> Problem:
        """What a component called ``title`` says against its parameters, at the first of them that it mentions."""
        key = next((key for key in self.places if key and re.search(rf"\b{re.escape(key)}\b", what)), "")
        if key not in self.places:
            return Problem(title, what)
        return self.places[key].problem((*self.path, key) if key else self.path, f"{title}: {what}")


@frozen(kw_only=True)
class ModelSpec:
    """A variant, fully described."""

    #: Width of sentence vectors and of what the encoder sees.
    width: int = field(default=64, validator=between(1))
    #: Dropout on the encoder's input.
    input_dropout: float = field(default=0.0, validator=between(0, 1))
    #: Dropout between the layers of the head.
    output_dropout: float = field(default=0.0, validator=between(0, 1))
    embedding: PartSpec
    encoder: PartSpec
    retriever: PartSpec
    scorer: PartSpec
    decision: PartSpec
    cell: PartSpec
    halting: PartSpec


@frozen(kw_only=True)
class TrainingSpec:
    """How long, with what and where to train."""

    #: Passes over the training examples at most; 0 for no such limit.
    epochs: int = field(default=10, validator=between(0))
    #: Optimizer steps at most; 0 for no such limit.
    steps: int = field(default=0, validator=between(0))
    #: Examples in a step.
    batch: int = field(default=128, validator=between(1))
    #: Tokens, padding included, that go through the model at a time; a larger batch is split and its gradients are
    #: summed, which changes nothing but memory. 0 for no limit.
    tokens: int = field(default=0, validator=between(0))
    #: The gradient's norm is cut to this.
    clip: float = field(default=1.0, validator=above_zero)
    #: Steps over which the learning rate rises to its full value.
    warmup: int = field(default=0, validator=between(0))
    #: Let the learning rate sink to 0 along a cosine.
    anneal: bool = False
    #: Steps between two looks at the development split; 0 for one after every epoch.
    evaluate_every: int = field(default=0, validator=between(0))
    #: What must improve on the development split.
    watch: str = field(default="accuracy", validator=one_of("accuracy", "loss"))
    #: Halve the learning rate after so many looks without improvement; 0 for never.
    halve_after: int = field(default=3, validator=between(0))
    #: Stop after so many looks without improvement; 0 for never.
    patience: int = field(default=0, validator=between(0))
    #: Steps between two checkpoints, besides one at every look; 0 for no others.
    save_every: int = field(default=500, validator=between(0))
    #: A run whose weights to begin with; empty for fresh ones.
    start: str = ""
    #: What to compute on.
    accelerator: str = field(default="auto", validator=one_of("auto", "cpu", "cuda", "mps"))
    #: Processes on this machine, a device each.
    devices: int = field(default=1, validator=between(1))
    #: Of the numbers; the mixed kinds keep the weights in 32 bits.
    precision: str = field(default="32", validator=one_of("32", "64", "16-mixed", "bf16-mixed"))
    #: Threads of the processor; 0 for torch's choice. Small models are often quickest with 1.
    threads: int = field(default=0, validator=between(0, 1024))
    optimizer: PartSpec
    observers: tuple[PartSpec, ...]

    def __attrs_post_init__(self) -> None:
        if not (self.epochs or self.steps):
            raise ValueError("epochs and steps cannot both be without a limit; training would never end")


@frozen(kw_only=True)
class RunSpec:
    """Everything that a result depends on."""

    #: From which every random number follows.
    seed: int = field(default=0, validator=between(0, 2**63 - 1))
    #: The task, by name and parameters.
    task: PartSpec
    #: The variant.
    model: ModelSpec
    #: How it is trained.
    training: TrainingSpec


@frozen
class Lexicon:
    """The vocabulary and classes of a saved model, so that it can be assembled without its training data."""

    tokens: tuple[str, ...]
    classes: tuple[str, ...]
    #: The width of the token vectors.
    vector_size: int
