"""Devices, precision and processes: Lightning Fabric, as a spec asks for it."""

from __future__ import annotations

import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from lightning_fabric.strategies.ddp import DDPStrategy

from crvnn_core.errors import CrvnnError
from crvnn_core.spec import TrainingSpec


def launched(spec: TrainingSpec) -> Fabric:
    """Fabric with everything under way: from here on there may be several processes.

    Under ``torchrun`` the number of processes is torchrun's.
    """
    here, everywhere = (int(os.environ.get(name, 0)) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    devices = here or spec.devices
    nodes = everywhere // here if here else 1
    # A batch of single tokens has no use for a cell, so parameters without a gradient are nothing unusual.
    strategy = DDPStrategy(find_unused_parameters=True) if devices * nodes > 1 else "auto"
    precision: Any = {"32": "32-true", "64": "64-true"}.get(spec.precision, spec.precision)
    options: dict[str, Any] = {"precision": precision}
    if spec.precision == "16-mixed" and torch.cuda.is_available():  # our own scaler, so that it can be saved
        options = {"plugins": MixedPrecision("16-mixed", "cuda", torch.amp.GradScaler("cuda"))}
    try:
        if spec.threads:
            torch.set_num_threads(spec.threads)
        torch.set_flush_denormal(
            True
        )  # processors take ten times as long over gradients that have all but vanished
        fabric = Fabric(
            accelerator=spec.accelerator, devices=devices, num_nodes=nodes, strategy=strategy, **options
        )
        fabric.launch()
    except (RuntimeError, ValueError, ImportError) as error:  # a device that is not here, say
        raise CrvnnError(f"[training] cannot be done on this machine: {error}") from error
    return fabric
