"""The work that is timed: a training step, or a forward pass."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from crvnn_core import Batch, Model

Work = Literal["train", "forward"]
#: What is inside the clock.
DESCRIPTIONS = {
    "train": "forward pass, loss and backward pass; the optimizer is outside the clock",
    "forward": "forward pass without gradients",
}


def perform(work: Work, model: Model, batch: Batch) -> Tensor:
    """Do the work on a batch: the recursion steps that each sequence took [B]."""
    return training_step(model, batch) if work == "train" else forward(model, batch)


def training_step(model: Model, batch: Batch) -> Tensor:
    """Forward pass, loss, backward pass: the recursion steps [B]. The weights do not change between repeats."""
    model.zero_grad()
    output = model(batch)
    output.loss(batch.labels).backward()  # type: ignore[no-untyped-call]
    return output.encodings[0].steps


@torch.inference_mode()
def forward(model: Model, batch: Batch) -> Tensor:
    """Forward pass in inference mode: the recursion steps [B]."""
    return model(batch).encodings[0].steps


def ready(work: Work, model: Model) -> Model:
    """The model in training mode for training steps, in evaluation mode for forward passes."""
    return model.train(work == "train")
