"""Where and when something was measured: a number without its machine says little."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from crvnn_bench.setup import Setup


def environment(setup: Setup) -> dict[str, Any]:
    """The machine, the versions, the threads, the seed and the date."""
    import torch

    from crvnn_core.kernels import in_use

    found: dict[str, Any] = {
        "crvnn": version("crvnn"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": setup.device,
        "kernels": setup.device == "cpu" and in_use(),
        "seed": setup.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if setup.device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name(setup.device)
    return found


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor is called."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def sentence(found: dict[str, Any]) -> str:
    """The environment in a line."""
    where = found.get("gpu") or found["cpu"]
    threads = f"{found['threads']} thread{'s' if found['threads'] != 1 else ''}"
    kernels = "native kernels" if found.get("kernels") else "no native kernels"
    return (
        f"{where}, {threads}, {kernels}; torch {found['torch']}; seed {found['seed']}; {found['date'][:10]}"
    )
