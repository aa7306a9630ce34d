"""Devices, precision and processes: Lightning Fabric, as a spec asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor

from crvnn_core.errors import CrvnnError
from crvnn_core.spec import TrainingSpec


def launched(spec: TrainingSpec) -> Fabric:
    """Fabric, launched as a spec asks: from here on there may be several processes.

    Under ``torchrun`` the number of processes is torchrun's.
    """
    here, everywhere = (int(os.environ.get(name, 0)) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    devices = here or spec.devices
    nodes = everywhere // here if here else 1
    # A batch of single tokens never calls the cell: its parameters then have no gradient.
    strategy = DDPStrategy(find_unused_parameters=True) if devices * nodes > 1 else "auto"
    precision: Any = {"32": "32-true", "64": "64-true"}.get(spec.precision, spec.precision)
    options: dict[str, Any] = {"precision": precision}
    if spec.precision == "16-mixed" and torch.cuda.is_available():  # our own scaler, so that it can be saved
        options = {"plugins": MixedPrecision("16-mixed", "cuda", torch.amp.GradScaler("cuda"))}
    try:
        if spec.threads:
            torch.set_num_threads(spec.threads)
        torch.set_flush_denormal(True)  # arithmetic on denormals takes a CPU ten times as long
        fabric = Fabric(
            accelerator=spec.accelerator, devices=devices, num_nodes=nodes, strategy=strategy, **options
        )
        fabric.launch()
    except (RuntimeError, ValueError, ImportError) as error:  # such as a missing device
        raise CrvnnError(f"[training] cannot be done on this machine: {error}") from error
    return fabric


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
