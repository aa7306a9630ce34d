"""Peak memory of a training step or forward pass in a fresh process: ``python -m crvnn_bench.memory``."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import pickle
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from attrs import asdict, frozen

from crvnn_bench.contenders import Contender, Contenders
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Workload, random_batch
from crvnn_core import Batch, CrvnnError, create_plugin_manager, read_catalog
from crvnn_core.training.data import out_of_memory

_SHORT = 8  # tokens of the warm-up
GIB = 2**30
#: How the peak of the process is measured.
METHOD = "highest resident set, less the resident set just before; on CUDA, the highest allocation"


@frozen
class Peak:
    """Peak memory of the work on one batch; ``None`` and a note where there was not enough."""

    bytes: int | None = None
    #: The most bytes that tensors took at once; the rest of the peak is allocator overhead.
    tensors: int | None = None
    note: str = ""


def measure_peak(setup: Setup, name: str, load: Workload) -> Peak:
    """The peak memory of a contender, in a fresh process; an error if that fails other than for memory."""
    command, request = [sys.executable, "-m", "crvnn_bench.memory"], pickle.dumps((setup, name, load))
    finished = subprocess.run(command, input=request, capture_output=True)
    if finished.returncode == 0:
        return Peak(**json.loads(finished.stdout.splitlines()[-1]))
    if finished.returncode == -signal.SIGKILL:
        return Peak(note="killed by the system: out of memory")
    if load.step_limit and finished.returncode == -signal.SIGALRM:
        return Peak(note=f"not run: a step takes more than {load.step_limit:g} s (--limit)")
    message = finished.stderr.decode(errors="replace").strip()[-400:]
    raise CrvnnError(f"measuring the memory of {name} failed:\n{message}")


def measure_here(setup: Setup, name: str, load: Workload) -> Peak:
    """The peak memory of a contender, in this process after a short warm-up."""
    setup.prepare()
    catalog = read_catalog(create_plugin_manager(files=[Path(file) for file in setup.plugins]))
    contender = Contenders(setup, catalog).build(name, load.work)
    contender.perform(random_batch(_SHORT, contender.model, setup.seed, setup.device))
    try:
        (batch,), longest = load.batches(contender, setup)
        with _ended_after(load.step_limit):
            if note := too_large(contender, load, longest, setup.device):
                return Peak(note=note)
            contender.model.zero_grad()
            peak = _peak(lambda: contender.perform(batch), setup.device)
    except CrvnnError as error:  # an encoder's own limit: a length, say
        return Peak(note=f"not run: {error}")
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Peak(note="out of memory")
    contender.model.zero_grad()
    tensors = tensor_peak(lambda: contender.perform(batch), setup.device)
    refusal = over_memory(tensors, load.memory)
    return Peak(note=refusal) if refusal else Peak(peak, tensors)


def too_large(contender: Contender, load: Workload, longest: Batch, device: str) -> str:
    """Why a batch would take too much memory, judging by its longest sequence alone; empty if it would not."""
    if load.batch == 1 or load.memory == math.inf:
        return ""
    return over_memory(load.batch * tensor_peak(lambda: contender.perform(longest), device), load.memory)


def over_memory(wanted: float, allowed: float) -> str:
    """Why a batch of so many bytes is not run; empty if it is."""
    if wanted <= allowed:
        return ""
    return (
        f"not run: a batch would take some {wanted / GIB:.1f} GiB of the {allowed / GIB:g} allowed (--memory)"
    )


def _peak(job: Callable[[], object], device: str) -> int:
    """How far the memory of the process, or of a CUDA device, grows during a job."""
    gc.collect()
    if device.startswith("cuda"):
        return tensor_peak(job, device)
    with contextlib.suppress(OSError):  # without it the peak includes start-up: little, in a fresh process
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to VmRSS
    before = _resident("VmRSS")
    job()
    return max(0, _resident("VmHWM") - before)


def _resident(size: str) -> int:
    """A size of /proc/self/status in bytes; where there is no such file (macOS), the largest resident set so far."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(re.findall(rf"^{size}:\s+(\d+) kB", status, re.MULTILINE)[0])


def tensor_peak(job: Callable[[], object], device: str = "cpu") -> int:
    """The most bytes that tensors took at once during a job, without allocator overhead.

    Whether a batch fits is judged by these: on a busy machine the resident set has been seen to grow by that of the
    whole process.
    """
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        job()
        return torch.cuda.max_memory_allocated(device) - before
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        job()
    now = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """A block that ends the process with SIGALRM if it takes longer; 0 for no limit."""
    # The signal's default action also ends a product in progress.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    print(json.dumps(asdict(measure_here(*pickle.load(sys.stdin.buffer)))))
