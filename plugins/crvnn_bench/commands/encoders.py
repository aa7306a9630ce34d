"""``crvnn bench encoders``: the time of an epoch and the peak memory of every encoder, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crvnn_bench.commands.options import common_options, memory_option, weights_option
from crvnn_bench.commands.output import GIB, contenders_of, make_setup, mib, results_of, say, say_if_busy
from crvnn_bench.contenders.names import CRVNN
from crvnn_bench.setup import UNTRAINED
from crvnn_core.cli.session import Session, counting, print_json, print_table

if TYPE_CHECKING:
    from crvnn_bench.contenders.build import Contenders

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
    "--batch", default=16, show_default=True, type=click.IntRange(min=1), help="Expressions a step."
)
@click.option(
    "--samples",
    default=32,
    show_default=True,
    type=click.IntRange(min=1),
    help="Expressions in an epoch, in whole batches.",
)
@click.option(
    "--repeats", default=3, show_default=True, type=click.IntRange(min=1), help="Repeats of the epoch."
)
@click.option(
    "--limit",
    default=5.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="An encoder whose training step takes longer is not run at that length and at longer ones; the table says so.",
)
@memory_option
@weights_option(UNTRAINED)
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
    """Compare encoders of equal width: the seconds of an epoch of training, and the peak memory of a step.

    An epoch is timed in interleaved runs of all encoders in one process, without the optimizer; its median is shown.
    Memory is the peak of tensors, measured in a fresh process for each. An encoder that cannot do a workload, or not
    within the limits, is listed with the reason; so the defaults take about ten minutes of one core. With --weights the
    encoder that they are for has them, and the others are untrained. crvnn-self-training is crvnn with the objective
    'self-training': composition along the best of four sampled trees, in place of soft ones.

    \b
    Examples:
      crvnn bench encoders
      crvnn bench encoders --contender crvnn --contender gumbel-tree --lengths 100
      crvnn bench encoders --weights listops --threads 1 --out encoders.json
    """
    from crvnn_bench.contenders.names import check_contenders
    from crvnn_bench.experiments.encoders import Limits, measure_encoders
    from crvnn_bench.experiments.speed import Round
    from crvnn_bench.workloads import read_range

    spans = list(dict.fromkeys(map(read_range, lengths)))
    setup = make_setup(session, **setting)
    contenders = contenders_of(session, setup)
    chosen = check_contenders(names or _all(contenders), contenders.catalog, training=True)
    samples = max(1, samples // batch) * batch
    round_ = Round(
        lengths=spans[0],
        batch=batch,
        samples=samples,
        work="train",
        repeats=repeats,
        limit=limit,
        memory=memory * GIB,
        floor=False,
        similar=True,
    )
    limits = Limits(seconds=limit, bytes=memory * GIB)
    entries, shares = measure_encoders(contenders, chosen, spans, round_, limits, counting)
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
    width = contenders.base.model.encoder.width
    what = f"epochs of {samples // batch} training steps of {batch} expressions, width {width}"
    say(
        f"{what}, {setup.weights}" if setup.weights == UNTRAINED else f"{what}, weights {setup.weights}",
        results,
    )
    say_if_busy(shares if setup.device == "cpu" else ())


def _all(contenders: Contenders) -> tuple[str, ...]:
    """Every installed encoder; ``crvnn`` first, by its own loss and by self-training."""
    names = set(contenders.catalog.components["encoder"])
    first = (CRVNN, f"{CRVNN}-self-training") if CRVNN in names else ()
    return (*first, *sorted(names - {CRVNN}))


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
