"""Contenders against each other on one workload: time, spread, steps, and the floor."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import torch
from attrs import frozen

from crvnn_bench.contenders.build import Field
from crvnn_bench.measurement.memory import GIB, Request, measure
from crvnn_bench.measurement.products import FLOOR, Floor, products_of
from crvnn_bench.measurement.timing import Job, Timed, interleave, ratio, settling, spread
from crvnn_bench.measurement.work import Work, perform, ready
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import Range, samples_of
from crvnn_core import Batch
from crvnn_core.training.data import Tokens, collate, example_length


@frozen(kw_only=True)
class Round:
    """One workload, and how to measure it."""

    lengths: Range
    batch: int
    samples: int
    work: Work
    repeats: int
    #: Seconds that one repeat of a contender may take.
    limit: float
    #: Bytes that one batch may take.
    memory: float
    #: Whether to time the matrix products alone as well.
    floor: bool


@frozen(kw_only=True)
class Entry:
    """What was measured of a contender on a workload. Times are for one batch."""

    weights: str
    lengths: str
    batch: int
    work: str
    contender: str
    seconds: float | None  # the median over repeats
    low: float | None  # the quartiles
    high: float | None
    against: float | None  # how many times as long as the first contender, on the same batches
    steps: float | None  # recursion steps of a sequence, on average
    batches: int  # that were measured
    repeats: int
    processor: float | None  # time of the processor by time of the clock: below 1, something else was running
    note: str = ""

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return attrs.asdict(self)


def compare(
    field: Field, names: Sequence[str], round_: Round, done: Callable[[int], None] = lambda number: None
) -> list[Entry]:
    """Measure contenders on a workload in one interleaved run; what each is compared with is the first."""
    setup, work = field.setup, round_.work
    jobs: dict[str, list[Job]] = {}
    notes: dict[str, str] = {}
    groups = samples_of(round_.lengths, round_.batch, round_.samples, setup.seed)
    for name in names:
        model = ready(work, field.build(name))
        batches = [collate(group, model.vocabulary).to(setup.device) for group in groups]
        notes[name] = _too_much(setup, name, round_, max(map(example_length, groups[0])))
        jobs[name] = [] if notes[name] else [partial(perform, work, model, batch) for batch in batches]
        if jobs[name]:
            perform(work, model, _first_of(batches[0]))  # the warm-up
        if name == "crvnn" and round_.floor and jobs[name]:
            with torch.enable_grad():
                floors = [Floor(products_of(model, batch), setup.device) for batch in batches]
            floors[0]()
            jobs[FLOOR] = list(floors)
    timed = interleave(jobs, round_.repeats, round_.limit, settle=settling(setup.device), done=done)
    first = timed[names[0]]
    return [
        _entry(setup.weights, round_, name, timed[name], first, len(groups), notes.get(name, ""))
        for name in jobs
    ]


def rounds(names: Sequence[str], round_: Round) -> int:
    """How many times ``compare`` tells that something is done."""
    floor = round_.floor and "crvnn" in names
    return (len(names) + floor) * round_.repeats * max(1, round_.samples // round_.batch)


def _too_much(setup: Setup, name: str, round_: Round, longest: int) -> str:
    """Why a batch is not to be run, judging by one sequence as long as its longest, in a process of its own."""
    if round_.batch == 1:
        return ""
    peak = measure(Request(setup=setup, contender=name, work=round_.work, lengths=Range(longest, longest)))
    if peak.bytes is None:
        return f"not run: {peak.note} with one sequence"
    wanted = round_.batch * peak.bytes
    if wanted <= round_.memory:
        return ""
    allowed = f"{round_.memory / GIB:g} allowed (--memory)"
    return f"not run: a batch would take some {wanted / GIB:.1f} GiB of the {allowed}"


def _first_of(batch: Batch) -> Batch:
    """Its first sequence alone."""
    tokens = batch.sequences[0]
    return Batch((Tokens(tokens.ids[:1], tokens.mask[:1]),), batch.labels[:1])


def _entry(
    weights: str, round_: Round, name: str, timed: Timed, first: Timed, batches: int, note: str
) -> Entry:
    low = middle = high = None
    if timed.jobs:
        low, middle, high = (value / timed.jobs for value in spread(timed.totals()))
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
