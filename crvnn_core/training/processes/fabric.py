"""Lightning Fabric, and what its processes exchange.

It reads the environment as it is imported: what it cannot read is one message before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from crvnn_core.training.processes.launchers import check_numbers

check_numbers()

from lightning_fabric import Fabric  # noqa: E402
from lightning_fabric.plugins.environments.lightning import LightningEnvironment  # noqa: E402
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment  # noqa: E402
from lightning_fabric.plugins.precision import MixedPrecision  # noqa: E402
from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: E402

__all__ = [
    "DDPStrategy",
    "Fabric",
    "LightningEnvironment",
    "MixedPrecision",
    "SLURMEnvironment",
    "read_by_first",
    "summed",
]


def summed(fabric: Fabric, tensor: Tensor) -> Tensor:
    """A tensor summed over all processes."""
    if fabric.world_size == 1:
        return tensor
    total = fabric.all_reduce(tensor, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


def read_by_first(fabric: Fabric, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the first process reads from its disk, in every process."""
    if fabric.world_size == 1:
        return read()
    found: dict[str, Any] = fabric.broadcast(read() if fabric.is_global_zero else {})
    return found
