"""Encoders on one workload after another: time and memory of each, or why it was not run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from attrs import frozen

from crvnn_bench.contenders.build import Contenders
from crvnn_bench.experiments.speed import Entry, Round, compare, count_jobs
from crvnn_bench.measurement.memory import Peak, Request, measure
from crvnn_bench.workloads import Range
from crvnn_core.errors import CrvnnError

#: Is given a number of jobs and what they are; returns what counts them.
Counting = Callable[[int, str], Any]


@frozen(kw_only=True)
class Limits:
    """What a training step may take; an encoder that needs more is not run, and not tried at longer lengths."""

    seconds: float
    bytes: float


def measure_encoders(
    contenders: Contenders,
    names: Sequence[str],
    lengths: Sequence[Range],
    round_: Round,
    limits: Limits,
    counting: Counting,
) -> tuple[list[dict[str, Any]], list[float | None]]:
    """A line for each length and encoder, compared with the first; and the shares of a core that each had.

    Shorter lengths are measured first, so that an encoder that one of them is too much for costs no more time.
    """
    lines: dict[tuple[Range, str], dict[str, Any]] = {}
    shares: list[float | None] = []
    refused: dict[str, Range] = {}
    for span in sorted(lengths, key=lambda span: span.high):
        peaks: dict[str, Peak] = {}
        with counting(len(names), f"memory, {span} tokens") as done:
            for name in names:
                if name in refused:
                    peaks[name] = Peak(None, note=f"not tried: {refused[name]} tokens were too much")
                else:
                    peaks[name] = _peak(contenders, name, span, round_.batch, limits)
                    if peaks[name].note:
                        refused[name] = span
                done(1)
        able = [name for name in names if not peaks[name].note]
        timed: dict[str, Entry] = {}
        if able:
            batches = max(1, round_.samples // round_.batch)
            epoch = attrs.evolve(
                round_, lengths=span, limit=limits.seconds * batches, memory=math.inf
            )  # a step of each was tried
            with counting(count_jobs(able, epoch), f"time, {span} tokens") as done:
                timed = {entry.contender: entry for entry in compare(contenders, able, epoch, done)}
        shares += [entry.processor for entry in timed.values()]
        for name in names:
            lines[span, name] = _line(span, name, peaks, timed, names[0], round_)
    return [lines[span, name] for span in lengths for name in names], shares


def _peak(contenders: Contenders, name: str, span: Range, batch: int, limits: Limits) -> Peak:
    try:
        contenders.build(name)  # so that an error is raised here, not in another process
    except CrvnnError as error:
        return Peak(None, note=f"not run: {error}")
    request = Request(
        setup=contenders.setup,
        contender=name,
        work="train",
        lengths=span,
        batch=batch,
        tensors=True,
        limit=limits.seconds,
        memory=limits.bytes,
    )
    return measure(request)


def _line(
    span: Range, name: str, peaks: dict[str, Peak], timed: dict[str, Entry], first: str, round_: Round
) -> dict[str, Any]:
    """One line of the table as plain data."""
    entry, peak, least = timed.get(name), peaks[name], peaks[first].tensors
    seconds = entry.seconds if entry is not None else None
    return {
        "lengths": str(span),
        "contender": name,
        "seconds": None if seconds is None else seconds * max(1, round_.samples // round_.batch),
        "slower": entry.against if entry is not None and first in timed else None,
        "bytes": peak.tensors,
        "larger": peak.tensors / least if peak.tensors is not None and least else None,
        "steps": entry.steps if entry is not None else None,
        "note": peak.note or (entry.note if entry is not None else ""),
    }
