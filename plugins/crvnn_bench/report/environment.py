"""The machine, the versions and the date that belong to a measurement."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from crvnn_bench.setup import Setup


def environment(setup: Setup) -> dict[str, Any]:
    """Hardware, versions, threads, seed and date as plain data, for the results of a measurement."""
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
    """The model name of the processor."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def sentence(found: dict[str, Any]) -> str:
    """The environment in one line, for tables and plots."""
    where = found.get("gpu") or found["cpu"]
    threads = f"{found['threads']} thread{'s' if found['threads'] != 1 else ''}"
    kernels = "native kernels" if found.get("kernels") else "no native kernels"
    return (
        f"{where}, {threads}, {kernels}; torch {found['torch']}; seed {found['seed']}; {found['date'][:10]}"
    )
