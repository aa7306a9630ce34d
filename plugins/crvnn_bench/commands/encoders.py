"""``crvnn bench encoders``: the time of an epoch and the peak memory of every encoder, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_bench.commands.options import common_options, limit_option, memory_option
from crvnn_bench.commands.output import GIB, contenders_of, make_setup, mib, results_of, say, say_if_busy
from crvnn_bench.contenders.names import CRVNN
from crvnn_bench.setup import UNTRAINED
from crvnn_core.cli.session import Session, counting, print_json, print_table

if TYPE_CHECKING:
    from crvnn_bench.contenders.build import Contenders
    from crvnn_bench.experiments.speed import Entry
    from crvnn_bench.measurement.memory import Peak

_LENGTHS = ("10-20", "50-100", "200-300")


@click.command("encoders", short_help="Compare all encoders: time of an epoch, memory.")
@click.option(
    "--contender",
    "names",
    multiple=True,
    metavar="NAME",
    help="An encoder to measure; the others are compared with the first. May be repeated.  [default: all]",
)
@click.option(
    "--lengths",
    multiple=True,
    default=_LENGTHS,
    show_default=True,
    metavar="LOW-HIGH",
    help="Tokens of the ListOps expressions, or one length. May be repeated.",
)
@click.option(
    "--batch", default=32, show_default=True, type=click.IntRange(min=1), help="Expressions a step."
)
@click.option(
    "--samples",
    default=128,
    show_default=True,
    type=click.IntRange(min=1),
    help="Expressions in an epoch, in whole batches.",
)
@click.option(
    "--repeats", default=3, show_default=True, type=click.IntRange(min=1), help="Repeats of the epoch."
)
@limit_option
@memory_option
@common_options
def encoders_command(
    session: Session,
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: int,
    samples: int,
    repeats: int,
    limit: float,
    memory: float,
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Compare encoders of equal width, untrained: the seconds of an epoch of training, and the peak memory of a step.

    An epoch is timed in interleaved runs of all encoders in one process, without the optimizer; its median is shown.
    Memory is the peak of tensors, measured in a fresh process for each. An encoder that cannot do a workload is listed
    with the reason.

    \b
    Examples:
      crvnn bench encoders
      crvnn bench encoders --contender crvnn --contender gumbel-tree --lengths 100
      crvnn bench encoders --width 64 --threads 1 --out encoders.json
    """
    from crvnn_bench.contenders.names import check_contenders
    from crvnn_bench.experiments.speed import Round, compare, count_jobs
    from crvnn_bench.workloads import read_range

    ranges = [read_range(text) for text in lengths]
    setup = make_setup(session, weights=UNTRAINED, **setting)
    contenders = contenders_of(session, setup)
    chosen = check_contenders(names or _all(contenders), contenders.catalog, training=True)
    entries: list[dict[str, Any]] = []
    shares: list[float | None] = []
    for span in ranges:
        round_ = Round(
            lengths=span,
            batch=batch,
            samples=samples,
            work="train",
            repeats=repeats,
            limit=limit,
            memory=memory * GIB,
            floor=False,
            similar=True,
        )
        with counting(len(chosen), f"memory, {span} tokens") as done:
            peaks = {}
            for name in chosen:
                peaks[name] = _peak(contenders, name, round_)
                done(1)
        able = [name for name in chosen if not peaks[name].note]
        timed: dict[str, Entry] = {}
        if able:
            with counting(count_jobs(able, round_), f"time, {span} tokens") as done:
                timed = {entry.contender: entry for entry in compare(contenders, able, round_, done)}
        shares += [entry.processor for entry in timed.values()]
        entries += [
            _row(str(span), name, peaks, timed, chosen[0], round_.samples // batch) for name in chosen
        ]
    results = results_of("encoders", setup, out, facts={"batch": batch, "samples": samples}, entries=entries)
    if as_json:
        print_json(results)
        return
    columns = ("tokens", "encoder", "s an epoch", f"x {chosen[0]}", "peak MiB", f"x {chosen[0]}", "")
    rows = [
        (
            entry["lengths"],
            entry["contender"],
            "" if entry["seconds"] is None else f"{entry['seconds']:.2f}",
            _times(entry["slower"]),
            mib(entry["bytes"]),
            _times(entry["larger"]),
            entry["note"],
        )
        for entry in entries
    ]
    print_table(columns, rows, right=(2, 3, 4, 5))
    say(f"epochs of {samples // batch} training steps of {batch} expressions, width {setup.width}", results)
    say_if_busy(shares if setup.device == "cpu" else ())


def _all(contenders: Contenders) -> tuple[str, ...]:
    """Every installed encoder, ``crvnn`` first."""
    names = contenders.catalog.components["encoder"]
    return tuple(sorted(names, key=lambda name: (name != CRVNN, name)))


def _peak(contenders: Contenders, name: str, round_: Any) -> Peak:
    from crvnn_bench.measurement.memory import Peak, Request, measure
    from crvnn_core.errors import CrvnnError

    try:
        contenders.build(name)  # so that an error is raised here, not in another process
    except CrvnnError as error:
        return Peak(None, note=f"not run: {error}")
    request = Request(
        setup=contenders.setup,
        contender=name,
        work="train",
        lengths=round_.lengths,
        batch=round_.batch,
        tensors=True,
    )
    return measure(request)


def _row(
    lengths: str, name: str, peaks: dict[str, Peak], timed: dict[str, Entry], first: str, batches: int
) -> dict[str, Any]:
    """One line of the table as plain data."""
    entry, peak, least = timed.get(name), peaks[name], peaks[first].tensors
    seconds = entry.seconds if entry is not None else None
    return {
        "lengths": lengths,
        "contender": name,
        "seconds": None if seconds is None else seconds * batches,
        "slower": entry.against if entry is not None and first in timed else None,
        "bytes": peak.tensors,
        "larger": peak.tensors / least if peak.tensors is not None and least else None,
        "steps": entry.steps if entry is not None else None,
        "note": peak.note or (entry.note if entry is not None else ""),
    }


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
