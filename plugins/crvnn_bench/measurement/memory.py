"""Peak memory of one piece of work, each contender in a fresh process: ``python -m crvnn_bench.measurement.memory``."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from attrs import asdict, frozen

from crvnn_bench.contenders.build import field_of
from crvnn_bench.measurement.work import Work, perform, ready
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Range, random_batch, samples_of
from crvnn_core import CrvnnError
from crvnn_core.training.data import collate
from crvnn_core.training.memory import out_of_memory

_SHORT = 8  # tokens of the warm-up
_LAST_WORDS = 400  # characters of a failed process that are passed on
GIB = 2**30


class Meter:
    """Measures by how much the memory of this process rises above what it is at ``begin``."""

    def __init__(self, device: str = "cpu", proc: Path = Path("/proc/self")) -> None:
        self.device, self.proc = device, proc
        self.cuda = device.startswith("cuda")
        self.before = 0

    @property
    def method(self) -> str:
        """What is measured, in words."""
        if self.cuda:
            return "highest torch.cuda.max_memory_allocated, less what was allocated before"
        source = "VmHWM" if self._status() else "ru_maxrss"
        return f"highest resident set ({source}), less the resident set just before"

    def begin(self) -> None:
        """From here on."""
        gc.collect()
        if self.cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = torch.cuda.memory_allocated(self.device)
            return
        with contextlib.suppress(OSError):  # then it stays where it is: in a fresh process, hardly higher
            (self.proc / "clear_refs").write_text("5")  # the high-water mark falls to where the memory stands
        self.before = self._status().get("VmRSS") or _maximum()

    def peak(self) -> int:
        """Bytes at most, since ``begin``."""
        if self.cuda:
            return torch.cuda.max_memory_allocated(self.device) - self.before
        return max(0, (self._status().get("VmHWM") or _maximum()) - self.before)

    def _status(self) -> dict[str, int]:
        """Sizes in bytes, by the names that Linux gives them; empty elsewhere."""
        try:
            text = (self.proc / "status").read_text(encoding="utf-8")
        except OSError:
            return {}
        return {
            name: 1024 * int(size) for name, size in re.findall(r"^(Vm\w+):\s+(\d+) kB", text, re.MULTILINE)
        }


def _maximum() -> int:
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


@frozen(kw_only=True)
class Request:
    """One piece of work to be measured."""

    setup: Setup
    contender: str
    work: Work
    lengths: Range
    batch: int = 1
    #: A sequence of random tokens instead of expressions.
    random: bool = False
    #: Whether to do the work once more, and count what tensors take.
    tensors: bool = False

    def written(self) -> str:
        """For the other process."""
        return json.dumps(
            {
                "setup": self.setup.plain(),
                "contender": self.contender,
                "work": self.work,
                "lengths": [self.lengths.low, self.lengths.high],
                "batch": self.batch,
                "random": self.random,
                "tensors": self.tensors,
            }
        )


def read_request(text: str) -> Request:
    """A request as the other process wrote it."""
    data = json.loads(text)
    return Request(**{**data, "setup": Setup(**data["setup"]), "lengths": Range(*data["lengths"])})


@frozen
class Peak:
    """What was measured in a process."""

    bytes: int | None
    steps: float | None = None
    tokens: int | None = None
    method: str = ""
    #: What tensors took of it at most, if that was asked for; the rest is the allocator's.
    tensors: int | None = None
    #: Why there is no number, if there is none.
    note: str = ""


def measure(request: Request) -> Peak:
    """Do the work in a fresh process, and tell how much memory it took."""
    command = [sys.executable, "-m", "crvnn_bench.measurement.memory", request.written()]
    finished = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if finished.returncode == 0:
        return Peak(**json.loads(finished.stdout.splitlines()[-1]))
    if finished.returncode == -9:
        return Peak(None, note="the system ended the process: out of memory")
    words = finished.stderr.strip()[-_LAST_WORDS:]
    raise CrvnnError(f"measuring the memory of {request.contender} failed:\n{words}")


def measure_here(request: Request) -> Peak:
    """Do the work in this process, after a short warm-up."""
    setup = request.setup
    if setup.threads:
        torch.set_num_threads(setup.threads)
    torch.set_flush_denormal(True)
    field = field_of(setup)
    model = ready(request.work, field.build(request.contender))
    perform(request.work, model, random_batch(_SHORT, model.vocabulary, setup.seed, setup.device))
    model.zero_grad()
    if request.random:
        batch = random_batch(request.lengths.high, model.vocabulary, setup.seed, setup.device)
    else:
        (examples,) = samples_of(request.lengths, request.batch, request.batch, setup.seed)
        batch = collate(examples, model.vocabulary).to(setup.device)
    meter = Meter(setup.device)
    meter.begin()
    try:
        steps = perform(request.work, model, batch)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Peak(None, method=meter.method, note="out of memory")
    tokens, most = int(batch.sequences[0].mask.sum()), meter.peak()
    tensors = most if meter.cuda else None  # there, tensors are what is measured
    if request.tensors and not meter.cuda:
        model.zero_grad()
        tensors = tensor_peak(lambda: perform(request.work, model, batch))
    return Peak(most, float(steps.double().mean()), tokens, meter.method, tensors)


def tensor_peak(job: Callable[[], object]) -> int:
    """The most bytes that torch had allocated at once while doing a job, whatever the allocator made of it."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        job()
    now = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def main(arguments: list[str]) -> None:
    """Answer one request on standard output."""
    print(json.dumps(asdict(measure_here(read_request(arguments[0])))))


if __name__ == "__main__":
    main(sys.argv[1:])
