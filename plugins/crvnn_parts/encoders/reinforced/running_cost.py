"""Running statistics of the costs of sampled decisions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Of the new batch in the exponential running statistics.
SHARE = 0.01


class RunningCost(nn.Module):
    """Exponential running mean and standard deviation of costs, saved with the weights."""

    mean: Tensor
    square: Tensor
    batches: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("square", torch.zeros(()))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def relative(self, cost: Tensor, baseline: Tensor | None) -> Tensor:
        """The costs [B] of a batch minus their baselines [B], or minus the mean of earlier costs; then count them."""
        gap = cost if baseline is None else cost - baseline
        relative = gap - self.expected(gap) if baseline is None else gap
        self.add(gap)
        return relative

    @torch.no_grad()
    def add(self, costs: Tensor) -> None:
        """Count the costs [B] of a batch; all of the first batches count alike."""
        self.batches += 1
        share = (1 / self.batches).clamp(min=SHARE).to(self.mean.dtype)
        self.mean.lerp_(costs.mean().to(self.mean.dtype), share)
        self.square.lerp_(costs.square().mean().to(self.square.dtype), share)

    def expected(self, costs: Tensor) -> Tensor:
        """The mean of earlier costs; of these [B] if there are none."""
        return torch.where(self.batches == 0, costs.mean().to(self.mean.dtype), self.mean)

    def deviation(self) -> Tensor:
        """The standard deviation of earlier costs; 0 if there are none."""
        return (self.square - self.mean.square()).clamp(min=0).sqrt()
