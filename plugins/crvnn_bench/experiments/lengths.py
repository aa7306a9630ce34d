"""Time and memory of a training step against the length of a sequence, at fixed depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
from attrs import define, field, frozen

from crvnn_bench.contenders.build import Contenders
from crvnn_bench.measurement.memory import GIB, Peak, Request, measure
from crvnn_bench.measurement.timing import Job, exponent, interleave, quartiles, synchronizer
from crvnn_bench.measurement.work import perform, ready
from crvnn_bench.workloads import Range, random_batch

_WORST = 2.0  # the exponent to assume after the first length


@frozen(kw_only=True)
class Point:
    """The measurement of a contender at a length; ``None`` where it was not measured, and a note that says why."""

    contender: str
    length: int
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    bytes: int | None = None
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return attrs.asdict(self)


@define
class Curve:
    """The peak memory of a contender at the lengths measured so far."""

    lengths: list[int] = field(factory=list)
    bytes: list[int] = field(factory=list)
    stopped: str = ""

    def expected(self, length: int) -> float:
        """The bytes to expect at the next length, extrapolated from the last two."""
        if not self.bytes:
            return 0
        growth = exponent(self.lengths[-2:], self.bytes[-2:]) or _WORST
        return float(self.bytes[-1] * (length / self.lengths[-1]) ** growth)

    def add(self, length: int, peak: Peak) -> None:
        """Add a measurement, or stop where there was not enough memory."""
        if peak.bytes is None:
            self.stopped = f"stopped: {peak.note}"
        else:
            self.lengths.append(length)
            self.bytes.append(max(1, peak.bytes))


def sweep(
    contenders: Contenders,
    names: Sequence[str],
    lengths: Sequence[int],
    *,
    repeats: int,
    limit: float,
    memory: float,
    done: Callable[[int], None] = lambda number: None,
) -> Iterator[list[Point]]:
    """A training step measured at each length: memory in fresh processes, then time in an interleaved run.

    :param limit: seconds that one step may take before a contender is measured once only.
    :param memory: bytes; a contender is not run at lengths where it would exceed them.
    """
    curves = {name: Curve() for name in names}
    models = {name: ready("train", contenders.build(name)) for name in names}
    setup = contenders.setup
    for length in lengths:
        jobs: dict[str, list[Job]] = {}
        peaks: dict[str, Peak] = {}
        for name in names:
            curve = curves[name]
            expected = curve.expected(length)
            if not curve.stopped and expected > memory:
                curve.stopped = f"stopped: it would take some {expected / GIB:.1f} GiB of {memory / GIB:g}"
            if not curve.stopped:
                asked = Request(
                    setup=setup, contender=name, work="train", lengths=Range(length, length), random=True
                )
                peaks[name] = measure(asked)
                curve.add(length, peaks[name])
            if not curve.stopped:
                batch = random_batch(length, models[name], setup.seed, setup.device)
                jobs[name] = [partial(perform, "train", models[name], batch)]
            done(1)
        interleave(jobs, 1, synchronize=synchronizer(setup.device))  # the warm-up
        timed = interleave(jobs, repeats, limit, synchronize=synchronizer(setup.device))
        points = []
        for name in names:
            if name in timed:
                low, middle, high = quartiles(timed[name].totals())
                note = f"measured {len(timed[name].seconds)} of {repeats} times" if timed[name].cut else ""
                points.append(
                    Point(
                        contender=name,
                        length=length,
                        seconds=middle,
                        low=low,
                        high=high,
                        bytes=peaks[name].bytes,
                        note=note,
                    )
                )
            else:
                points.append(Point(contender=name, length=length, note=curves[name].stopped))
        yield points


def exponents(points: Sequence[Point]) -> dict[str, dict[str, float | None]]:
    """The exponents p with which time and memory of each contender grow as n ** p."""
    found = {}
    for name in dict.fromkeys(point.contender for point in points):
        timed = [(p.length, p.seconds) for p in points if p.contender == name and p.seconds]
        sized = [(p.length, p.bytes) for p in points if p.contender == name and p.bytes]
        found[name] = {
            "time": exponent([length for length, _ in timed], [value for _, value in timed]),
            "memory": exponent([length for length, _ in sized], [value for _, value in sized]),
        }
    return found
