"""Components whose behaviour follows the progress of training."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scheduled(nn.Module):
    """A module that looks at ``progress``: 0 when training begins, 1 when it ends; saved with the weights."""

    progress: Tensor

    def add_progress(self) -> None:
        """Call this in ``__init__``."""
        self.register_buffer("progress", torch.zeros(()))


def set_progress(model: nn.Module, fraction: float) -> None:
    """Tell every scheduled part of a model how far training has come."""
    for module in model.modules():
        if isinstance(module, Scheduled):
            module.progress.fill_(fraction)
