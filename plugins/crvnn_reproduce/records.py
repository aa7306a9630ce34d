"""What the ledger gets of a run: figures, hours over interruptions, hardware, versions and commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crvnn_core
from crvnn_core.files import write_atomically
from crvnn_core.spec import RunSpec
from crvnn_reproduce.ledger import Entry
from crvnn_reproduce.plan import Job
from crvnn_reproduce.specs import portable

if TYPE_CHECKING:
    from crvnn_core.runs.results import Result


def new_entry(job: Job, spec: RunSpec, clock: Clock, **facts: Any) -> Entry:
    """An entry of a job with figures and what else is known, and with what every entry has."""
    import torch

    content: dict[str, Any] = {
        "experiment": job.experiment.name,
        "system": job.row.system.name,
        "fingerprint": job.made.fingerprint,
        "budget": job.budget,
        "seed": job.seed,
        "hours": round(clock.hours, 5),
        "cpu_hours": round(clock.cpu_hours, 5),
        "data": job.experiment.budget(job.budget).data,
        "hardware": hardware(device_of(spec), torch.get_num_threads()),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "spec": portable(spec),
    }
    return Entry(**(content | facts))


def scores(results: Mapping[str, Result]) -> dict[str, dict[str, Any]]:
    """Accuracies and numbers of examples by split, and by group as ``test/11-20``."""
    found = {
        f"{split}/{group}" if group else split: score
        for split, result in results.items()
        for group, score in {"": result.total, **result.buckets}.items()
    }
    return {
        "figures": {name: round(score.accuracy, 6) for name, score in found.items()},
        "examples": {name: score.examples for name, score in found.items()},
    }


def device_of(spec: RunSpec) -> str:
    """The kind of device that a spec trains on here."""
    import torch

    asked = spec.training.accelerator
    if asked != "auto":
        return asked
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def hardware(device: str, threads: int) -> dict[str, Any]:
    """The processor or the GPU, without the machine's name."""
    from crvnn_bench.setup import cpu_model

    found: dict[str, Any] = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": threads,
        "device": device,
    }
    if device.startswith("cuda"):
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    return found


def versions() -> dict[str, str]:
    """The versions that numbers depend on."""
    return {"crvnn": version("crvnn"), "torch": version("torch"), "python": platform.python_version()}


@cache
def commit() -> str:
    """The commit of crvnn's repository, with ``+`` if its code was changed; empty if it is not installed from one."""
    package = Path(crvnn_core.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package), *words], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # not just anybody's repository around it
        code = [f":/{folder}" for folder in ("crvnn_core", "plugins", "tasks")]
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


class Clock:
    """The time that a run has taken so far, kept in a file, so that it survives a kill up to the last ``save``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = {"seconds": 0.0, "cpu": 0.0}
        with suppress(OSError, ValueError):
            self.before |= json.loads(path.read_text(encoding="utf-8"))
        self.began, self.began_cpu = time.monotonic(), time.process_time()

    @property
    def hours(self) -> float:
        """Wall-clock hours."""
        return (self.before["seconds"] + time.monotonic() - self.began) / 3600

    @property
    def cpu_hours(self) -> float:
        """Hours of processor time."""
        return (self.before["cpu"] + time.process_time() - self.began_cpu) / 3600

    def save(self) -> None:
        """Write the time so far."""
        with suppress(crvnn_core.CrvnnError):  # better no time than no result
            write_atomically(
                self.path, json.dumps({"seconds": 3600 * self.hours, "cpu": 3600 * self.cpu_hours}) + "\n"
            )
