"""Peak memory of a training step or forward pass in a fresh process: ``python -m crvnn_bench.memory``."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from attrs import asdict, frozen

from crvnn_bench.contenders import Contenders
from crvnn_bench.setup import Setup
from crvnn_bench.timing import Work, perform, ready
from crvnn_bench.workloads import random_batch, read_range, samples_of
from crvnn_core import CrvnnError, create_plugin_manager, read_catalog
from crvnn_core.training.data import example_length, out_of_memory

_SHORT = 8  # tokens of the warm-up
_ERROR_TAIL = 400  # characters of a failed process's stderr in the error message
GIB = 2**30
#: How the peak of the process is measured.
METHOD = "highest resident set, less the resident set just before; on CUDA, the highest allocation"


@frozen(kw_only=True)
class Request:
    """What the fresh process is to measure."""

    setup: Setup
    contender: str
    work: Work
    lengths: str  # as read_range takes them
    batch: int = 1
    #: A sequence of random tokens instead of expressions.
    random: bool = False
    #: Seconds that the work may take, and bytes, judging by the longest sequence alone; 0 for any. More is not done.
    limit: float = 0.0
    memory: float = 0.0


@frozen
class Peak:
    """Peak memory of the work; ``None`` and a note where there was not enough."""

    bytes: int | None = None
    steps: float | None = None
    tokens: int | None = None
    #: The most bytes that tensors took at once; the rest of the peak is allocator overhead.
    tensors: int | None = None
    #: Why there is no number, if there is none.
    note: str = ""


def measure(request: Request) -> Peak:
    """The peak memory of the work, done in a fresh process; an error if that fails other than for memory."""
    command = [sys.executable, "-m", "crvnn_bench.memory", json.dumps(asdict(request))]
    finished = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if finished.returncode == 0:
        return Peak(**json.loads(finished.stdout.splitlines()[-1]))
    if finished.returncode == -signal.SIGKILL:
        return Peak(note="killed by the system: out of memory")
    if request.limit and finished.returncode == -signal.SIGALRM:
        return Peak(note=f"not run: a step takes more than {request.limit:g} s (--limit)")
    tail = finished.stderr.strip()[-_ERROR_TAIL:]
    raise CrvnnError(f"measuring the memory of {request.contender} failed:\n{tail}")


def measure_here(request: Request) -> Peak:
    """The peak memory of the work, done in this process after a short warm-up."""
    setup, lengths = request.setup, read_range(request.lengths)
    if setup.threads:
        torch.set_num_threads(setup.threads)
    torch.set_flush_denormal(True)
    catalog = read_catalog(create_plugin_manager(files=[Path(file) for file in setup.plugins]))
    model = ready(request.work, Contenders(setup, catalog).build(request.contender))
    perform(request.work, model, random_batch(_SHORT, model, setup.seed, setup.device))
    model.zero_grad()
    try:
        if request.random:
            batch = random_batch(lengths.high, model, setup.seed, setup.device)
        else:
            (examples,) = samples_of(lengths, request.batch, request.batch, setup.seed)
            if request.memory:
                longest = model.batch([max(examples, key=example_length)]).to(setup.device)
                with _ended_after(request.limit):
                    needed = tensor_peak(lambda: perform(request.work, model, longest), setup.device)
                model.zero_grad()
                if refusal := over_memory(request.batch * needed, request.memory):
                    return Peak(note=refusal)
            batch = model.batch(examples).to(setup.device)
        with _ended_after(request.limit):
            peak, steps = _peak(lambda: perform(request.work, model, batch), setup.device)
    except CrvnnError as error:  # an encoder's own limit: a length, say
        return Peak(note=f"not run: {error}")
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Peak(note="out of memory")
    model.zero_grad()
    tensors = tensor_peak(lambda: perform(request.work, model, batch), setup.device)
    return Peak(peak, float(steps.double().mean()), int(batch.sequences[0].mask.sum()), tensors)


def _peak(job: Callable[[], torch.Tensor], device: str) -> tuple[int, torch.Tensor]:
    """How far the memory of the process, or of a CUDA device, grows during a job; and the job's result."""
    gc.collect()
    if device.startswith("cuda"):
        found: list[torch.Tensor] = []
        return tensor_peak(lambda: found.append(job()), device), found[0]
    with contextlib.suppress(OSError):  # without it the peak includes start-up: little, in a fresh process
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to VmRSS
    before = _resident("VmRSS")
    result = job()
    return max(0, _resident("VmHWM") - before), result


def _resident(size: str) -> int:
    """A size of /proc/self/status in bytes; where there is no such file, the largest resident set so far."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return 1024 * int(re.findall(rf"^{size}:\s+(\d+) kB", status, re.MULTILINE)[0])
    except (OSError, IndexError):
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else 1024 * largest


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


def over_memory(wanted: float, allowed: float) -> str:
    """Why a batch of so many bytes is not run; empty if it is."""
    if wanted <= allowed:
        return ""
    return (
        f"not run: a batch would take some {wanted / GIB:.1f} GiB of the {allowed / GIB:g} allowed (--memory)"
    )


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """A block that ends the process with SIGALRM if it takes longer; where there is no such signal it may."""
    if not seconds or not hasattr(signal, "setitimer"):
        yield
        return
    # The signal's default action also ends a product in progress.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(asdict(measure_here(Request(**{**asked, "setup": Setup(**asked["setup"])})))))
