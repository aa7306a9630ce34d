"""Putting a variant together: the only place that builds components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from attrs import field, frozen

from crvnn_core.component import SLOTS
from crvnn_core.errors import FAILURES, CrvnnError, PluginError, Problem, SpecError, raised_at
from crvnn_core.host import Catalog, Offer
from crvnn_core.interfaces import (
    Cell,
    Decision,
    Encoder,
    Halting,
    Observer,
    Retriever,
    Scorer,
    Task,
)
from crvnn_core.model import Model
from crvnn_core.spec import PartSpec, RunSpec

#: How every resolved spec begins.
RESOLVED = "resolved by crvnn"

#: What a component of each slot must be.
INTERFACES: dict[str, type] = {
    "retriever": Retriever,
    "scorer": Scorer,
    "decision": Decision,
    "cell": Cell,
    "halting": Halting,
    "encoder": Encoder,
    "task": Task,
    "optimizer": torch.optim.Optimizer,
    "observer": Observer,
}


@frozen(eq=False)
class Assembly:
    """A spec made real."""

    spec: RunSpec
    task: Task
    model: Model
    offers: Mapping[str, Offer]  # by slot: what was built, and where it comes from
    catalog: Catalog = field(repr=False)

    def optimizer(self) -> torch.optim.Optimizer:
        """The spec's optimizer over the model's parameters."""
        available = {"params": list(self.model.parameters())}
        optimizer: torch.optim.Optimizer = _build(
            self.catalog, "optimizer", self.spec.training.optimizer, available
        )
        return optimizer

    def observers(self) -> list[Observer]:
        """The spec's observers."""
        return [_build(self.catalog, "observer", part, {}) for part in self.spec.training.observers]

    @property
    def packages(self) -> list[str]:
        """The packages that took part, with their versions."""
        others = [self.catalog.find("optimizer", self.spec.training.optimizer.name)]
        others += [self.catalog.find("observer", part.name) for part in self.spec.training.observers]
        return sorted({str(offer.source) for offer in (*self.offers.values(), *others)})

    def notes(self) -> list[str]:
        """Who made it, in a line."""
        return [f"{RESOLVED}; components from {', '.join(self.packages)}; torch {torch.__version__}"]


def assemble(spec: RunSpec, catalog: Catalog) -> Assembly:
    """Build the task and the model that a spec describes, from its seed; every refused setting in one error."""
    torch.manual_seed(spec.seed)
    problems: list[Problem] = []
    offers: dict[str, Offer] = {}

    def build(slot: str, part: PartSpec, **available: Any) -> Any:
        offers[slot] = catalog.find(slot, part.name)
        try:
            return _build(catalog, slot, part, available)
        except SpecError as error:
            problems.extend(error.problems)
            return None

    task = build("task", spec.task)
    width = spec.model.width
    wanted = catalog.find("encoder", spec.model.encoder.name).component.parameters()
    parts = {slot: build(slot, getattr(spec.model, slot), width=width) for slot in SLOTS if slot in wanted}
    encoder = None if problems else build("encoder", spec.model.encoder, width=width, **parts)
    problems += _refusals(spec, catalog)
    if encoder is None or problems:
        raise SpecError(problems)
    dropouts = (spec.model.input_dropout, spec.model.output_dropout)
    try:
        model = Model(task, encoder, width=width, embedding=spec.model.embedding or width, dropouts=dropouts)
    except FAILURES as error:
        title = f"task '{spec.task.name}' ({offers['task'].source})"
        raise PluginError(f"{title} could not make a model: {raised_at(error)}") from error
    return Assembly(spec, task, model, offers, catalog)


def _refusals(spec: RunSpec, catalog: Catalog) -> list[Problem]:
    """What the parts that are built later, for training, have against their settings."""
    problems: list[Problem] = []
    stand_in = {"params": [torch.nn.Parameter(torch.zeros(1))]}
    later = [
        ("optimizer", spec.training.optimizer),
        *(("observer", part) for part in spec.training.observers),
    ]
    for slot, part in later:
        try:
            _build(catalog, slot, part, stand_in)
        except SpecError as error:
            problems.extend(error.problems)
    return problems


def _build(catalog: Catalog, slot: str, part: PartSpec, available: Mapping[str, Any]) -> Any:
    """One component; an error from inside it names its place in the spec, it, and its package."""
    offer = catalog.find(slot, part.name)
    try:
        built = offer.component.make(available, **part.params)
    except CrvnnError:
        raise
    except ValueError as error:
        raise SpecError([part.blame(str(error))]) from error
    except FAILURES as error:
        raise PluginError(str(part.blame(f"could not be built: {raised_at(error)}"))) from error
    if not isinstance(built, INTERFACES[slot]):
        kind = f"built a {type(built).__name__}, which is no {INTERFACES[slot].__name__}"
        raise PluginError(str(part.blame(kind)))
    return built
