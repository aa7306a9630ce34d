"""Trying an assembled variant on real data of its task: one step forward and back."""

from __future__ import annotations

import time

import torch
from attrs import frozen

from crvnn_core.assembly import Assembly
from crvnn_core.cost import counted
from crvnn_core.data import batches
from crvnn_core.errors import ContractError, CrvnnError, PluginError, raised_at
from crvnn_core.model import Output

_MODEL_SLOTS = ("retriever", "scorer", "decision", "cell", "halting")


@frozen
class Row:
    """One slot of a variant."""

    slot: str
    component: str
    source: str
    parameters: int
    multiply_adds: float | None  # per token and step; None where it does not apply


@frozen
class Probe:
    """What a variant is made of and what it did with a batch."""

    rows: tuple[Row, ...]
    parameters: int
    sequences: int
    longest: int
    mean_steps: float
    most_steps: int
    loss: float
    gradient_norm: float
    seconds: float


def probe(assembly: Assembly, size: int = 16) -> Probe:
    """Run a batch of the task's training data through the model and back."""
    split = assembly.task.splits[0]
    batch = next(batches(assembly.task, split, size, assembly.spec.seed), None)
    if batch is None:
        raise CrvnnError(
            f"task '{assembly.spec.task.name}': the split '{split}' has no examples to try the model on"
        )
    assembly.optimizer(), assembly.observers()  # would they be built?
    model = assembly.model.train()
    batch = batch.to(model.embed.weight.device)
    try:
        with torch.no_grad(), counted(model.encoder, _MODEL_SLOTS) as cost:
            model(batch)
        began = time.perf_counter()
        output: Output = model(batch)
        loss = output.loss(batch.labels)
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
    except CrvnnError:
        raise
    except Exception as error:
        raise PluginError(
            f"the probe failed in a component of {_packages(assembly)}: {raised_at(error)}"
        ) from error
    seconds = time.perf_counter() - began
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if not torch.isfinite(norm + loss.detach()):
        raise ContractError(
            f"the probe gave a loss of {loss.item():.4g} and a gradient of norm {norm.item():.4g}"
        )
    steps = torch.cat([encoding.steps for encoding in output.encodings]).float()
    return Probe(
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


def _row(assembly: Assembly, slot: str, multiply_adds: float | None) -> Row:
    offer = assembly.offers[slot]
    encoder = assembly.model.encoder
    parts = {
        name: part
        for name in _MODEL_SLOTS
        if isinstance(part := getattr(encoder, name, None), torch.nn.Module)
    }
    modules = {**parts, "encoder": encoder, "task": assembly.model.head}
    own = _size(modules[slot]) if slot in modules else 0  # a part under another name counts as the encoder's
    if slot == "encoder":  # what the encoder itself has, beside its parts
        own -= sum(_size(part) for part in parts.values())
    return Row(slot, offer.component.name, str(offer.source), own, None if slot == "task" else multiply_adds)


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _packages(assembly: Assembly) -> str:
    return ", ".join(sorted({str(offer.source) for offer in assembly.offers.values()}))
