"""Peak memory of a training step or forward pass in a fresh process: ``python -m crvnn_bench.memory``."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from attrs import asdict, frozen

from crvnn_bench.contenders import Contenders
from crvnn_bench.setup import Setup
from crvnn_bench.timing import Work, perform, ready
from crvnn_bench.workloads import random_batch, read_range, samples_of
from crvnn_core import CrvnnError, Example, Model, create_plugin_manager, read_catalog
from crvnn_core.training.data import example_length, out_of_memory

_SHORT = 8  # tokens of the warm-up
_ERROR_TAIL = 400  # characters of a failed process's stderr in the error message
GIB = 2**30


class Meter:
    """Peak memory of this process, or of a CUDA device, above what was in use at ``begin``."""

    def __init__(self, device: str = "cpu", proc: Path = Path("/proc/self")) -> None:
        self.device, self.proc = device, proc
        self.cuda = device.startswith("cuda")
        self.before = 0

    @property
    def method(self) -> str:
        """How the peak is measured, for reports."""
        if self.cuda:
            return "highest torch.cuda.max_memory_allocated, less what was allocated before"
        source = "VmHWM" if self._status() else "ru_maxrss"
        return f"highest resident set ({source}), less the resident set just before"

    def begin(self) -> None:
        """Reset the peak."""
        gc.collect()
        if self.cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = torch.cuda.memory_allocated(self.device)
            return
        with contextlib.suppress(
            OSError
        ):  # without it the peak includes start-up: little, in a fresh process
            (self.proc / "clear_refs").write_text("5")  # resets VmHWM to VmRSS
        self.before = self._status().get("VmRSS") or _max_rss()

    def peak(self) -> int:
        """The most bytes in use since ``begin``, less those in use then."""
        if self.cuda:
            return torch.cuda.max_memory_allocated(self.device) - self.before
        return max(0, (self._status().get("VmHWM") or _max_rss()) - self.before)

    def _status(self) -> dict[str, int]:
        """The Vm* sizes of /proc/self/status in bytes; empty where there is no such file."""
        try:
            text = (self.proc / "status").read_text(encoding="utf-8")
        except OSError:
            return {}
        return {
            name: 1024 * int(size) for name, size in re.findall(r"^(Vm\w+):\s+(\d+) kB", text, re.MULTILINE)
        }


def _max_rss() -> int:
    """The largest resident set of this process so far, in bytes."""
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


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
    #: Whether to do the work once more under the profiler, and count the bytes of tensors.
    tensors: bool = False
    #: Seconds that the work may take, and bytes, judging by the longest sequence alone; 0 for any. More is not done.
    limit: float = 0.0
    memory: float = 0.0


@frozen
class Peak:
    """Peak memory of the work; ``None`` and a note where there was not enough."""

    bytes: int | None
    steps: float | None = None
    tokens: int | None = None
    method: str = ""
    #: The most bytes that tensors took at once, if asked for; the rest of the peak is allocator overhead.
    tensors: int | None = None
    #: Why there is no number, if there is none.
    note: str = ""


def measure(request: Request) -> Peak:
    """The peak memory of the work, done in a fresh process; an error if that fails other than for memory."""
    command = [sys.executable, "-m", "crvnn_bench.memory", json.dumps(asdict(request))]
    finished = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if finished.returncode == 0:
        return Peak(**json.loads(finished.stdout.splitlines()[-1]))
    if finished.returncode == -9:
        return Peak(None, note="killed by the system: out of memory")
    if request.limit and finished.returncode == -signal.SIGALRM:
        return Peak(None, note=f"not run: a step takes more than {request.limit:g} s (--limit)")
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
    meter = Meter(setup.device)
    try:
        if request.random:
            batch = random_batch(lengths.high, model, setup.seed, setup.device)
        else:
            (examples,) = samples_of(lengths, request.batch, request.batch, setup.seed)
            if request.memory and (refusal := _too_much(request, model, examples, meter)):
                return Peak(None, method=meter.method, note=refusal)
            batch = model.batch(examples).to(setup.device)
        meter.begin()
        with _ended_after(request.limit):
            steps = perform(request.work, model, batch)
    except CrvnnError as error:  # an encoder's own limit: a length, say
        return Peak(None, method=meter.method, note=f"not run: {error}")
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Peak(None, method=meter.method, note="out of memory")
    tokens, peak = int(batch.sequences[0].mask.sum()), meter.peak()
    tensors = peak if meter.cuda else None  # CUDA's figure is that of tensors
    if request.tensors and not meter.cuda:
        model.zero_grad()
        tensors = tensor_peak(lambda: perform(request.work, model, batch))
    return Peak(peak, float(steps.double().mean()), tokens, meter.method, tensors)


def _too_much(request: Request, model: Model, examples: Sequence[Example], meter: Meter) -> str:
    """Why a batch is not tried, judging by the tensors of its longest sequence alone; empty if it is.

    The resident set would not do: on a busy machine it has been seen to grow by that of the whole process.
    """
    batch = model.batch([max(examples, key=example_length)]).to(request.setup.device)
    meter.begin()
    with _ended_after(request.limit):
        if meter.cuda:
            perform(request.work, model, batch)
            peak = meter.peak()
        else:
            peak = tensor_peak(lambda: perform(request.work, model, batch))
    model.zero_grad()
    return over_memory(len(examples) * peak, request.memory)


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


def tensor_peak(job: Callable[[], object]) -> int:
    """The most bytes that tensors took at once during a job, without allocator overhead."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        job()
    now = peak = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(asdict(measure_here(Request(**{**asked, "setup": Setup(**asked["setup"])})))))
