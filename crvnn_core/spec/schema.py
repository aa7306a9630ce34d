"""What a spec can say. Equal specs and seeds build equal models."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from crvnn_core.errors import Origin, Path_, Problem


def between(low: float, high: float = math.inf) -> Callable[[Any, Any, float], None]:
    """A validator for numbers from ``low`` to ``high``."""
    limits = f"at least {low}" + ("" if high == math.inf else f" and at most {high}")

    def check(instance: Any, attribute: Any, value: float) -> None:
        if not low <= value <= high:
            raise ValueError(f"must be {limits}, not {value}")

    check.__doc__ = limits
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
    #: Width of the embedding, which is mapped to the model's width; 0 for the same.
    embedding: int = field(default=0, validator=between(0))
    #: Dropout on the encoder's input.
    input_dropout: float = field(default=0.0, validator=between(0, 1))
    #: Dropout between the layers of the head.
    output_dropout: float = field(default=0.0, validator=between(0, 1))
    #: Turns an embedded sequence into a vector.
    encoder: PartSpec
    #: Finds soft neighbours.
    retriever: PartSpec
    #: Scores positions.
    scorer: PartSpec
    #: Turns scores into composition probabilities.
    decision: PartSpec
    #: Composes two children.
    cell: PartSpec
    #: Says which sequences go on.
    halting: PartSpec


@frozen(kw_only=True)
class TrainingSpec:
    """How long and with what to train."""

    #: Optimizer steps.
    steps: int = field(default=1000, validator=between(1))
    #: Examples in a step.
    batch: int = field(default=64, validator=between(1))
    #: The gradient's norm is cut to this.
    clip: float = field(default=1.0, validator=above_zero)
    #: Changes the weights.
    optimizer: PartSpec
    #: Are told what happens.
    observers: tuple[PartSpec, ...]


@frozen(kw_only=True)
class RunSpec:
    """Everything that a result depends on."""

    #: From which every random number follows.
    seed: int = field(default=0, validator=between(0, 2**63 - 1))
    #: Where examples come from.
    task: PartSpec
    #: The variant.
    model: ModelSpec
    #: How it is trained.
    training: TrainingSpec


#: Where the spec names a component, and the slot that it fills.
PARTS = {
    ("task",): "task",
    ("model", "encoder"): "encoder",
    ("model", "retriever"): "retriever",
    ("model", "scorer"): "scorer",
    ("model", "decision"): "decision",
    ("model", "cell"): "cell",
    ("model", "halting"): "halting",
    ("training", "optimizer"): "optimizer",
}
#: Where the spec names a list of components.
PART_LISTS = {("training", "observers"): "observer"}

#: The bottom of every spec; a preset adds the parts of the model.
DEFAULTS: Mapping[str, Any] = {
    "task": "listops",
    "training": {"optimizer": "ranger", "observers": ["progress"]},
}
