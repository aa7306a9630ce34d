"""Contenders timed on one workload: medians, quartiles, recursion steps, and the matrix products alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import attrs
from attrs import frozen

from crvnn_bench.contenders.build import Contenders
from crvnn_bench.measurement.memory import Request, measure, over_memory
from crvnn_bench.measurement.products import PRODUCTS, ProductsAlone, products_of
from crvnn_bench.measurement.timing import Job, Timed, interleave, quartiles, ratio, synchronizer
from crvnn_bench.measurement.work import Work, perform, ready
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Range, samples_of
from crvnn_core.training.data import example_length


@frozen(kw_only=True)
class Round:
    """One workload, and how to measure it: see ``compare``."""

    lengths: Range
    batch: int
    samples: int
    work: Work
    repeats: int
    #: Seconds that one repeat of a contender may take before it is measured fewer times.
    limit: float
    #: Bytes that one batch may take; a contender that needs more is not run. With infinitely many, nothing is tried
    #: beforehand.
    memory: float
    #: Whether to time the matrix products of the weights' encoder alone as well.
    floor: bool
    #: Whether the expressions of a batch have similar lengths, as in training.
    similar: bool = False


@frozen(kw_only=True)
class Entry:
    """The measurement of a contender on a workload. Times are seconds per batch."""

    weights: str
    lengths: str
    batch: int
    work: str
    contender: str
    seconds: float | None  # the median over repeats
    low: float | None  # the quartiles
    high: float | None
    against: float | None  # seconds divided by those of the first contender, on the same batches
    steps: float | None  # mean recursion steps of a sequence
    batches: int  # how many were measured
    repeats: int
    processor: float | None  # CPU seconds per wall-clock second: below 1, something else was running
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return attrs.asdict(self)


def compare(
    contenders: Contenders,
    names: Sequence[str],
    round_: Round,
    done: Callable[[int], None] = lambda number: None,
) -> list[Entry]:
    """The measurements of contenders on a workload in one interleaved run, each compared with the first."""
    setup, work = contenders.setup, round_.work
    jobs: dict[str, list[Job]] = {}
    notes: dict[str, str] = {}
    groups = samples_of(round_.lengths, round_.batch, round_.samples, setup.seed, similar=round_.similar)
    for name in names:
        model = ready(work, contenders.build(name))
        batches = [model.batch(group).to(setup.device) for group in groups]
        refusal = _too_much(setup, name, round_, max(map(example_length, chain(*groups))))
        notes[name] = refusal or contenders.remark(name)
        jobs[name] = [] if refusal else [partial(perform, work, model, batch) for batch in batches]
        if jobs[name]:
            perform(work, model, batches[0].first(1))  # the warm-up
        if name == contenders.encoder and round_.floor and jobs[name]:
            products = [ProductsAlone(products_of(model, batch), setup.device) for batch in batches]
            products[0]()
            jobs[PRODUCTS] = list(products)
    timed = interleave(jobs, round_.repeats, round_.limit, synchronize=synchronizer(setup.device), done=done)
    first = timed[names[0]]
    return [
        _entry(setup.weights, round_, name, timed[name], first, len(groups), notes.get(name, ""))
        for name in jobs
    ]


def count_jobs(names: Sequence[str], round_: Round) -> int:
    """How many jobs ``compare`` will report as done."""
    return (len(names) + round_.floor) * round_.repeats * max(1, round_.samples // round_.batch)


def _too_much(setup: Setup, name: str, round_: Round, longest: int) -> str:
    """Why a batch is not run, judging by one sequence as long as its longest; empty if it is."""
    if round_.batch == 1 or math.isinf(round_.memory):
        return ""
    peak = measure(Request(setup=setup, contender=name, work=round_.work, lengths=Range(longest, longest)))
    if peak.bytes is None:
        return f"not run: {peak.note} with one sequence"
    return over_memory(round_.batch * peak.bytes, round_.memory)


def _entry(
    weights: str, round_: Round, name: str, timed: Timed, first: Timed, batches: int, note: str
) -> Entry:
    low = middle = high = None
    if timed.jobs:
        low, middle, high = (value / timed.jobs for value in quartiles(timed.totals()))
    if timed.cut:
        note = (
            f"over the limit of {round_.limit:g} s a repeat: measured on {timed.jobs} of {batches} batches, "
        )
        note += f"{len(timed.seconds)} of {round_.repeats} times"
    steps = [float(result.double().mean()) for result in timed.results if result is not None]
    return Entry(
        weights=weights,
        lengths=str(round_.lengths),
        batch=round_.batch,
        work=round_.work,
        contender=name,
        seconds=middle,
        low=low,
        high=high,
        against=ratio(timed, first),
        steps=statistics.mean(steps) if steps else None,
        batches=timed.jobs,
        repeats=len(timed.seconds),
        processor=timed.processor,
        note=note,
    )
