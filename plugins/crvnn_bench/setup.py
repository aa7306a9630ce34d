"""What is measured, as plain data that can be passed to another process; and the machine that it is measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import field, frozen

#: The encoder whose variants are listed; any other is named the same way.
CRVNN = "crvnn"
#: What differs in each variant of an encoder.
VARIANTS = {
    "checkpointed": "with activation checkpointing: each step is recomputed in the backward pass",
    "torch": "without native kernels",
    "plain": "without shortcuts: every position is kept, and the cell runs on all of them",
    "self-training": "trained by the objective 'self-training': sampled trees, composition along the best",
    "hard": "hard inference: n - 1 compositions along one tree",
    "dense": "the paper's formulation in torch alone: n x n matrices, every position in every step",
    "dense-retriever": "with n x n matrices in its retriever",
}
#: Variants that may be named without their encoder: then it is the one that has the weights.
ALONE = ("dense", "dense-retriever")
#: In place of a run: freshly initialised weights.
UNTRAINED = "untrained"


@frozen(kw_only=True)
class Setup:
    """How the models of a measurement are built; equal setups build equal models."""

    #: A run directory or the name of an installed model, or ``untrained``.
    weights: str = UNTRAINED
    #: The preset and the width of untrained models; trained ones have their own.
    preset: str = "paper"
    width: int = 128
    #: How many recursion steps every sequence takes; 0 to let it halt.
    max_steps: int = 0
    seed: int = 0
    device: str = "cpu"
    #: Threads of torch; 0 for torch's default.
    threads: int = 0
    #: Plug-in files to load.
    plugins: tuple[str, ...] = field(default=(), converter=tuple)

    def prepare(self) -> None:
        """Set torch's threads, and flush denormals as training does."""
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        torch.set_flush_denormal(True)


def variant_names() -> list[str]:
    """The variants of ``crvnn`` as they are named."""
    return [name if name in ALONE else f"{CRVNN}-{name}" for name in VARIANTS]


def environment(setup: Setup) -> dict[str, Any]:
    """Hardware, versions, threads, seed and date, for the results of a measurement."""
    import torch

    from crvnn_core.kernels import in_use

    return {
        "crvnn": version("crvnn"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **hardware(setup.device),
        "kernels": setup.device == "cpu" and in_use(),
        "seed": setup.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def hardware(device: str) -> dict[str, Any]:
    """Processor, threads and GPU, without the machine's name."""
    import torch

    found = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device,
    }
    return found | ({"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {})


def cpu_model() -> str:
    """The model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
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
