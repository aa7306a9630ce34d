"""Lightning Fabric, which reads the environment as it is imported: what it cannot read is one message before."""

from __future__ import annotations

from crvnn_core.training.processes.launchers import check_numbers

check_numbers()

from lightning_fabric import Fabric  # noqa: E402
from lightning_fabric.plugins.environments.lightning import LightningEnvironment  # noqa: E402
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment  # noqa: E402
from lightning_fabric.plugins.precision import MixedPrecision  # noqa: E402
from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: E402

__all__ = ["DDPStrategy", "Fabric", "LightningEnvironment", "MixedPrecision", "SLURMEnvironment"]
