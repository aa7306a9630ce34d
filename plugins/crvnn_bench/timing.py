"""Interleaved timing: contenders take turns, so that a slow spell of the machine slows down all of them."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from attrs import define, field

Job = Callable[[], Any]


@define
class Timed:
    """The times of one contender."""

    #: Seconds by repeat and job. An unfinished repeat is left out, unless it is the first.
    seconds: list[list[float]] = field(factory=list)
    #: What each job returned in the first repeat.
    results: list[Any] = field(factory=list)
    #: Whether the time limit left it with fewer repeats or jobs than asked for.
    cut: bool = False
    #: Wall-clock seconds, and CPU seconds of all threads, over everything that was timed.
    wall: float = 0.0
    cpu: float = 0.0

    @property
    def jobs(self) -> int:
        """How many different jobs were timed."""
        return len(self.seconds[0]) if self.seconds else 0

    @property
    def processor(self) -> float | None:
        """CPU seconds per wall-clock second: below 1, the process had to wait for something else."""
        return self.cpu / self.wall if self.wall else None

    def totals(self, jobs: int | None = None) -> list[float]:
        """The seconds of each repeat, over all jobs or the first so many."""
        return [sum(times[:jobs]) for times in self.seconds]

    def quartiles(self) -> dict[str, float | None]:
        """Median (``seconds``) and quartiles (``low``, ``high``) over repeats, for one job; ``None`` without jobs."""
        if not self.jobs:
            return dict.fromkeys(("seconds", "low", "high"))
        values = [total / self.jobs for total in self.totals()]
        low = middle = high = values[0]
        if len(values) > 1:
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return {"seconds": middle, "low": low, "high": high}


def interleave(
    contenders: Mapping[str, Sequence[Job]],
    repeats: int,
    limit: float = math.inf,
    *,
    device: str = "cpu",
    clock: Callable[[], float] = time.perf_counter,
    done: Callable[[int], None] = lambda number: None,
) -> dict[str, Timed]:
    """The times of every contender on its jobs. For each job all contenders take a turn, in rotating order.

    :param limit: seconds that a contender may spend on one repeat. One that exceeds them is not run again, so it has
        fewer repeats, or only some of the jobs.
    :param device: whose queued work is waited for before the clock is read.
    :param done: called with 1 for each job that was run or left out.
    """
    timed, names = {name: Timed() for name in contenders}, list(contenders)
    length = max(map(len, contenders.values()), default=0)
    for repeat in range(repeats):
        gc.collect()
        current: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(length):
            first = (repeat + number) % len(names)
            for name in names[first:] + names[:first]:
                done(1)
                record = timed[name]
                if record.cut or number >= len(contenders[name]):
                    continue
                with no_garbage_collection():
                    _synchronize(device)
                    cpu, began = time.process_time(), clock()
                    result = contenders[name][number]()
                    _synchronize(device)
                    seconds, cpu = clock() - began, time.process_time() - cpu
                record.wall += seconds
                record.cpu += cpu
                current[name].append(seconds)
                if repeat == 0:
                    record.results.append(result)
                record.cut = sum(current[name]) > limit
        for name, times in current.items():
            if times and (repeat == 0 or len(times) == timed[name].jobs):
                timed[name].seconds.append(times)
    for record in timed.values():  # not cut if the limit was exceeded by the very last job
        record.cut = record.cut and (len(record.seconds) < repeats or record.jobs < length)
    return timed


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A block in which Python's cyclic garbage collector does not run."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def ratio(one: Timed, other: Timed) -> float | None:
    """The median time of one divided by that of the other, on the jobs that both did; ``None`` without any."""
    jobs = min(one.jobs, other.jobs)
    if not jobs:
        return None
    return statistics.median(one.totals(jobs)) / statistics.median(other.totals(jobs))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The p of values ~ sizes ** p, by linear regression in log-log space; ``None`` from fewer than two sizes."""
    if len(set(sizes)) < 2 or min(values) <= 0:
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope
