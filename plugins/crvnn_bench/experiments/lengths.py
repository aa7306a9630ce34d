"""Time and memory of a training step against the length of a sequence, at fixed depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
from attrs import define, field, frozen

from crvnn_bench.contenders.build import Field
from crvnn_bench.measurement.memory import GIB, Peak, Request, measure
from crvnn_bench.measurement.timing import Job, exponent, interleave, settling, spread
from crvnn_bench.measurement.work import perform, ready
from crvnn_bench.workloads import Range, random_batch

_WORST = 2.0  # the exponent to expect where nothing is known yet


@frozen(kw_only=True)
class Point:
    """A contender at a length; no numbers where it was not measured, and a note that says why."""

    contender: str
    length: int
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    bytes: int | None = None
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return attrs.asdict(self)


@define
class Curve:
    """How the memory of a contender grew so far."""

    lengths: list[int] = field(factory=list)
    bytes: list[int] = field(factory=list)
    stopped: str = ""

    def expected(self, length: int) -> float:
        """What the next length may take."""
        if not self.bytes:
            return 0
        growth = exponent(self.lengths[-2:], self.bytes[-2:]) or _WORST
        return float(self.bytes[-1] * (length / self.lengths[-1]) ** growth)

    def add(self, length: int, peak: Peak) -> None:
        """Take down what was measured."""
        if peak.bytes is None:
            self.stopped = f"stopped: {peak.note}"
        else:
            self.lengths.append(length)
            self.bytes.append(max(1, peak.bytes))


def sweep(
    runners: Field,
    names: Sequence[str],
    lengths: Sequence[int],
    *,
    repeats: int,
    limit: float,
    memory: float,
    done: Callable[[int], None] = lambda number: None,
) -> Iterator[list[Point]]:
    """Measure a training step at each length: memory in processes of their own, then time in turns.

    :param limit: seconds that one step may take before a contender is measured once only.
    :param memory: bytes; a contender that would exceed them goes no further.
    """
    curves = {name: Curve() for name in names}
    models = {name: ready("train", runners.build(name)) for name in names}
    setup = runners.setup
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
                batch = random_batch(length, models[name].vocabulary, setup.seed, setup.device)
                jobs[name] = [partial(perform, "train", models[name], batch)]
            done(1)
        interleave(jobs, 1, settle=settling(setup.device))  # the warm-up
        timed = interleave(jobs, repeats, limit, settle=settling(setup.device))
        points = []
        for name in names:
            if name in timed:
                low, middle, high = spread(timed[name].totals())
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
    """How time and memory of each contender grow with length: the p of n ** p."""
    found = {}
    for name in dict.fromkeys(point.contender for point in points):
        timed = [(p.length, p.seconds) for p in points if p.contender == name and p.seconds]
        sized = [(p.length, p.bytes) for p in points if p.contender == name and p.bytes]
        found[name] = {
            "time": exponent([length for length, _ in timed], [value for _, value in timed]),
            "memory": exponent([length for length, _ in sized], [value for _, value in sized]),
        }
    return found
