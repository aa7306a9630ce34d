"""Putting a variant together: the only place that builds components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from attrs import field, frozen

from crvnn_core.component import ENCODER_PARTS
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
    observers: list[Observer]
    offers: Mapping[str, Offer]  # by slot: what was built, and where it comes from
    catalog: Catalog = field(repr=False)

    def optimizer(self) -> torch.optim.Optimizer:
        """The spec's optimizer over the model's parameters."""
        available = {"params": list(self.model.parameters())}
        optimizer: torch.optim.Optimizer = _build(
            self.catalog, "optimizer", self.spec.training.optimizer, available
        )
        return optimizer

    @property
    def packages(self) -> list[str]:
        """The packages that took part, with their versions."""
        others = [self.catalog.find("optimizer", self.spec.training.optimizer.name)]
        others += [self.catalog.find("observer", part.name) for part in self.spec.training.observers]
        return sorted({str(offer.source) for offer in (*self.offers.values(), *others)})

    def notes(self) -> list[str]:
        """Who made it, in a line."""
        return [f"components from {', '.join(self.packages)}; torch {torch.__version__}"]


def assemble(spec: RunSpec, catalog: Catalog) -> Assembly:
    """Build the task and the model that a spec describes, from its seed; every refused setting in one error."""
    torch.manual_seed(spec.seed)
    problems: list[Problem] = []
    offers: dict[str, Offer] = {}

    def build(slot: str, part: PartSpec, **available: Any) -> Any:
        if slot not in ("optimizer", "observer"):  # which are no part of the model
            offers[slot] = catalog.find(slot, part.name)
        try:
            return _build(catalog, slot, part, available)
        except SpecError as error:
            problems.extend(error.problems)
            return None

    task = build("task", spec.task)
    width = spec.model.width
    wanted = catalog.find("encoder", spec.model.encoder.name).component.parameters()
    parts = {
        slot: build(slot, getattr(spec.model, slot), width=width) for slot in ENCODER_PARTS if slot in wanted
    }
    encoder = None if problems else build("encoder", spec.model.encoder, width=width, **parts)
    model = None if encoder is None else _model(spec, task, encoder, offers["task"])
    shaped = list(model.parameters()) if model else [torch.nn.Parameter(torch.zeros(2, 2))]
    build("optimizer", spec.training.optimizer, params=shaped)
    observers = [build("observer", part) for part in spec.training.observers]
    if model is None or problems:
        raise SpecError(problems)
    return Assembly(spec, task, model, observers, offers, catalog)


def _model(spec: RunSpec, task: Task, encoder: Encoder, offer: Offer) -> Model:
    dropouts = (spec.model.input_dropout, spec.model.output_dropout)
    embedding = spec.model.embedding or spec.model.width
    try:
        return Model(task, encoder, width=spec.model.width, embedding=embedding, dropouts=dropouts)
    except FAILURES as error:
        raise PluginError(f"{offer} could not make a model: {raised_at(error)}") from error


def _build(catalog: Catalog, slot: str, part: PartSpec, available: Mapping[str, Any]) -> Any:
    """One component; an error from inside it names its place in the spec, it, and its package."""
    offer = catalog.find(slot, part.name)
    title = str(offer)
    try:
        built = offer.component.make(available, **part.params)
    except CrvnnError:
        raise
    except ValueError as error:
        raise SpecError([part.problem(title, str(error))]) from error
    except FAILURES as error:
        raise PluginError(str(part.problem(title, f"could not be built: {raised_at(error)}"))) from error
    if not isinstance(built, INTERFACES[slot]):
        kind = f"built a {type(built).__name__}, which is no {INTERFACES[slot].__name__}"
        raise PluginError(str(part.problem(title, kind)))
    return built
