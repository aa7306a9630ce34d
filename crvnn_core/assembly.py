"""Putting a variant together: the only place that builds components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from attrs import field, frozen

from crvnn_core.component import FILLED_IN
from crvnn_core.errors import CrvnnError, PluginError, raised_at
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

    def notes(self) -> list[str]:
        """Who made it: one line for each package that took part."""
        packages = sorted({str(offer.source) for offer in self.offers.values()})
        return [f"resolved by crvnn; components from {', '.join(packages)}; torch {torch.__version__}"]


def assemble(spec: RunSpec, catalog: Catalog) -> Assembly:
    """Build the task and the model that a spec describes, from its seed."""
    torch.manual_seed(spec.seed)
    task = _build(catalog, "task", spec.task, {})
    available: dict[str, Any] = {"width": spec.model.width}
    offers = {"task": catalog.find("task", spec.task.name)}
    wanted = catalog.find("encoder", spec.model.encoder.name).component.parameters()
    for slot in (
        name for name in FILLED_IN if name in wanted and hasattr(spec.model, name) and name != "width"
    ):
        part = getattr(spec.model, slot)
        available[slot] = _build(catalog, slot, part, {"width": spec.model.width})
        offers[slot] = catalog.find(slot, part.name)
    encoder = _build(catalog, "encoder", spec.model.encoder, available)
    offers["encoder"] = catalog.find("encoder", spec.model.encoder.name)
    model = Model(
        task,
        encoder,
        width=spec.model.width,
        embedding=spec.model.embedding or spec.model.width,
        dropouts=(spec.model.input_dropout, spec.model.output_dropout),
    )
    return Assembly(spec, task, model, offers, catalog)


def _build(catalog: Catalog, slot: str, part: PartSpec, available: Mapping[str, Any]) -> Any:
    """One component; an error from inside it names its place in the spec, it, and its package."""
    offer = catalog.find(slot, part.name)
    title = f"{part.where}: " * bool(part.where) + f"{slot} '{part.name}' ({offer.source})"
    try:
        built = offer.component.make(available, **part.params)
    except CrvnnError:
        raise
    except ValueError as error:
        raise CrvnnError(f"{title}: {error}") from error
    except Exception as error:
        raise PluginError(f"{title} could not be built: {raised_at(error)}") from error
    if not isinstance(built, INTERFACES[slot]):
        raise PluginError(f"{title} built a {type(built).__name__}, which is no {INTERFACES[slot].__name__}")
    return built
