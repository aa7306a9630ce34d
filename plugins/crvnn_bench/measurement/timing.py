"""Timing contenders against each other: in turns, so that whatever slows the machine down slows down all."""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

Job = Callable[[], Any]


@define
class Timed:
    """The times of one contender."""

    #: Of each job, by repeat. A repeat that was not finished is left out, unless it is the first.
    seconds: list[list[float]] = field(factory=list)
    #: What each job gave when it was done first.
    results: list[Any] = field(factory=list)
    #: Whether it took too long to be measured as often as the others.
    cut: bool = False
    #: Seconds of the clock, and those of the processor in all threads, over everything that was timed.
    spent: float = 0.0
    busy: float = 0.0

    @property
    def jobs(self) -> int:
        """How many different ones were timed."""
        return len(self.seconds[0]) if self.seconds else 0

    @property
    def processor(self) -> float | None:
        """The time of the processor by the time of the clock: below 1, it had to wait for something else."""
        return self.busy / self.spent if self.spent else None

    def totals(self, jobs: int | None = None) -> list[float]:
        """Of each repeat, over the first so many jobs."""
        return [sum(times[:jobs]) for times in self.seconds]


def interleave(
    contenders: Mapping[str, Sequence[Job]],
    repeats: int,
    limit: float = math.inf,
    *,
    settle: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
    done: Callable[[int], None] = lambda number: None,
) -> dict[str, Timed]:
    """Time every contender on its jobs: job by job all of them in turn, each time beginning with another.

    :param limit: seconds that a contender may spend on one repeat. When it has spent them it is not asked again: it
        has fewer repeats then, or only some of the jobs.
    :param settle: called before the clock is read, to wait for a device.
    :param done: is told of jobs that were done, or will not be.
    """
    timed = {name: Timed() for name in contenders}
    length = max(map(len, contenders.values()), default=0)
    for repeat in range(repeats):
        gc.collect()
        current: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(length):
            for name in _rotated(list(contenders), repeat * length + number):
                done(1)
                if timed[name].cut or number >= len(contenders[name]):
                    continue
                seconds, busy, result = _time(contenders[name][number], settle, clock)
                timed[name].spent += seconds
                timed[name].busy += busy
                current[name].append(seconds)
                if repeat == 0:
                    timed[name].results.append(result)
                timed[name].cut = sum(current[name]) > limit
        for name, seconds_ in current.items():
            if seconds_ and (repeat == 0 or len(seconds_) == timed[name].jobs):
                timed[name].seconds.append(seconds_)
    for record in timed.values():  # one that was slow in the last job of the last repeat has missed nothing
        record.cut = record.cut and (len(record.seconds) < repeats or record.jobs < length)
    return timed


def _rotated(names: list[str], by: int) -> list[str]:
    by %= max(1, len(names))
    return names[by:] + names[:by]


def _time(job: Job, settle: Callable[[], None], clock: Callable[[], float]) -> tuple[float, float, Any]:
    """Seconds of the clock, seconds of the processor, and the result."""
    with no_collection():
        settle()
        busy, began = time.process_time(), clock()
        result = job()
        settle()
        return clock() - began, time.process_time() - busy, result


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """A block in which Python does not look for garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def settling(device: str) -> Callable[[], None]:
    """What waits until a device has done what it was told."""
    if device.startswith("cuda"):
        import torch

        return lambda: torch.cuda.synchronize(device)
    return lambda: None


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratio(one: Timed, other: Timed) -> float | None:
    """How many times as long one takes as the other, on the jobs that both did."""
    jobs = min(one.jobs, other.jobs)
    if not jobs:
        return None
    return statistics.median(one.totals(jobs)) / statistics.median(other.totals(jobs))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """The p of values ~ sizes ** p, by least squares between the logarithms; nothing from fewer than two sizes."""
    if len(set(sizes)) < 2 or min(values) <= 0:
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope
