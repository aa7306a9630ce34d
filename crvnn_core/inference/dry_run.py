"""A dry run of an assembled model: one batch of its task's training data, forward and backward."""

from __future__ import annotations

import time
from itertools import islice

import torch
from attrs import frozen

from crvnn_core.errors import FAILURES, ContractError, CrvnnError, PluginError, raised_at
from crvnn_core.host.slots import ENCODER_PARTS
from crvnn_core.inference.cost import UNATTRIBUTED, Cost, count_multiply_adds, part_of
from crvnn_core.model.batch import Batch
from crvnn_core.model.model import Output
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training.data import split_examples


@frozen
class SlotCost:
    """What fills a slot of the model, and what it costs."""

    slot: str
    component: str
    source: str
    parameters: int
    multiply_adds: float | None  # per position and step of the batch; None where it does not apply


@frozen
class DryRun:
    """What a model consists of, and what it did with one batch."""

    rows: tuple[SlotCost, ...]
    parameters: int
    sequences: int
    longest: int
    mean_steps: float
    most_steps: int
    loss: float
    gradient_norm: float
    seconds: float


def dry_run(assembly: Assembly, size: int = 16) -> DryRun:
    """Run one batch of the task's training data through the model, forward and backward.

    An error names the component at fault: one that raises, returns the wrong thing, or gives NaN or infinity.
    """
    batch = _first_batch(assembly, size)
    model, cost = assembly.model.train(), Cost()
    try:
        with torch.no_grad(), count_multiply_adds(model.encoder, ENCODER_PARTS, cost):
            model(batch)
        cost.running[:] = [UNATTRIBUTED]
        began = time.perf_counter()
        output: Output = model(batch)
        loss = output.loss(batch.labels)
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
    except ContractError as error:
        slot = error.slot or cost.running[-1]
        raise ContractError(f"{_title(assembly, slot)}: {error}", slot) from error
    except CrvnnError:
        raise
    except FAILURES as error:
        raise PluginError(f"{_title(assembly, cost.running[-1])} failed: {raised_at(error)}") from error
    seconds = time.perf_counter() - began
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if not torch.isfinite(norm + loss.detach()):
        where = _title(assembly, cost.non_finite[0] if cost.non_finite else UNATTRIBUTED)
        raise ContractError(
            f"{where} gives NaN or infinity: the loss is {loss.item():.4g}, the gradient's norm {norm.item():.4g}"
        )
    steps = torch.cat([encoding.steps for encoding in output.encodings]).float()
    return DryRun(
        rows=tuple(_row(assembly, slot, cost.per_position(slot)) for slot in assembly.offers),
        parameters=_size(model),
        sequences=len(batch.labels) * len(batch.sequences),
        longest=max(tokens.ids.shape[1] for tokens in batch.sequences),
        mean_steps=steps.mean().item(),
        most_steps=int(steps.max()),
        loss=loss.item(),
        gradient_norm=norm.item(),
        seconds=seconds,
    )


def _row(assembly: Assembly, slot: str, multiply_adds: float | None) -> SlotCost:
    offer = assembly.offers[slot]
    encoder = assembly.model.encoder
    parts = {name: part for name in ENCODER_PARTS if (part := part_of(encoder, name)) is not None}
    modules = {**parts, "encoder": encoder, "task": assembly.model.head, "embedding": assembly.model.embed}
    own = (
        _size(modules[slot]) if slot in modules else 0
    )  # a part under another attribute counts as the encoder's
    if slot == "embedding":
        own += _size(assembly.model.project)
    if slot == "encoder":  # what the encoder itself has, beside its parts
        own -= sum(_size(part) for part in parts.values())
    counted_too = slot not in ("task", "embedding")
    return SlotCost(
        slot, offer.component.name, str(offer.source), own, multiply_adds if counted_too else None
    )


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _first_batch(assembly: Assembly, size: int) -> Batch:
    task, title = assembly.task, _title(assembly, "task")
    try:
        examples = list(islice(split_examples(task, task.splits[0], assembly.spec.seed), size))
        batch = assembly.model.batch(examples) if examples else None
    except CrvnnError as error:
        raise CrvnnError(f"{title}: {error}") from error
    except FAILURES as error:
        raise PluginError(f"{title} failed to give examples: {raised_at(error)}") from error
    if batch is None:
        raise CrvnnError(f"{title}: the split '{task.splits[0]}' has no examples to try the model on")
    return batch.to(assembly.model.embed.weight.device)


def _title(assembly: Assembly, slot: str) -> str:
    """A component by slot, name and package; all packages where the slot is unknown."""
    if slot in assembly.offers:
        return str(assembly.offers[slot])
    return f"the model (components from {', '.join(assembly.packages)})"
