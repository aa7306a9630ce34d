"""A training loop that can be read on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch.optim import Optimizer

from crvnn_core.data import Batch
from crvnn_core.errors import CrvnnError
from crvnn_core.interfaces import Observer
from crvnn_core.model import Model
from crvnn_core.schedule import set_progress


def fit(
    model: Model,
    data: Iterable[Batch],
    optimizer: Optimizer,
    *,
    steps: int,
    clip: float = 1.0,
    observers: Sequence[Observer] = (),
) -> None:
    """Take ``steps`` optimizer steps over ``data``, telling the observers of each."""
    model.train()
    device = next(model.parameters()).device
    begun: list[Observer] = []
    try:
        for observer in observers:
            observer.started(steps, {"parameters": sum(p.numel() for p in model.parameters())})
            begun.append(observer)
        source = iter(data)
        for step in range(1, steps + 1):
            batch = next(source, None)
            if batch is None:
                raise CrvnnError(f"the data ran out after {step - 1} of {steps} steps")
            set_progress(model, step / steps)
            try:
                metrics = train_step(model, batch.to(device), optimizer, clip)
            except FloatingPointError as error:
                raise CrvnnError(
                    f"{error} at step {step}; the weights are those of the step before. Try a smaller learning rate"
                ) from error
            for observer in observers:
                observer.stepped(step, metrics)
    finally:
        for observer in begun:
            observer.finished({})


def train_step(model: Model, batch: Batch, optimizer: Optimizer, clip: float) -> dict[str, float]:
    """One step of the optimizer; the loss, accuracy and mean recursion depth on the batch.

    A loss that is NaN or infinite raises ``FloatingPointError`` before it can touch the weights.
    """
    output = model(batch)
    loss = output.loss(batch.labels)
    if not torch.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss.item()}")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    right = (output.logits.argmax(-1) == batch.labels).float().mean()
    depth = torch.stack([encoding.steps.float().mean() for encoding in output.encodings]).mean()
    return {"loss": float(loss.detach()), "accuracy": float(right), "depth": float(depth)}
