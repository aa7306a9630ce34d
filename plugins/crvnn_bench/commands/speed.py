"""``crvnn bench speed``: the time of contenders on ListOps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import (
    common_options,
    contender_option,
    depth_options,
    limit_option,
    memory_option,
    weights_option,
)
from crvnn_bench.commands.output import (
    GIB,
    choose,
    contenders_of,
    first_column,
    make_setup,
    ms,
    results_of,
    say,
    say_if_busy,
)
from crvnn_bench.setup import RANGES, SAMPLES
from crvnn_core.cli.session import Session, counting, print_json, print_table

_DEFAULT = ("crvnn", "dense")


@click.command("speed", short_help="Time encoders against each other.")
@weights_option("listops", multiple=True)
@contender_option(*_DEFAULT)
@click.option(
    "--lengths",
    multiple=True,
    default=RANGES,
    show_default=True,
    metavar="LOW-HIGH",
    help="Tokens of the ListOps expressions, or one length. May be repeated.",
)
@click.option(
    "--batch",
    multiple=True,
    default=(1,),
    show_default=True,
    type=click.IntRange(min=1),
    help="Expressions at a time. May be repeated.",
)
@click.option(
    "--samples",
    default=SAMPLES,
    show_default=True,
    type=click.IntRange(min=1),
    help="Expressions in an epoch, in whole batches.",
)
@click.option(
    "--similar/--mixed",
    default=False,
    help="Batches of similar lengths, as training makes them, or of all lengths.  [default: mixed]",
)
@click.option(
    "--work",
    default="train",
    show_default=True,
    type=click.Choice(["train", "forward"]),
    help="Training steps (forward, loss, backward; no optimizer), or forward passes.",
)
@click.option(
    "--repeats", default=5, show_default=True, type=click.IntRange(min=1), help="Repeats of the epoch."
)
@click.option(
    "--floor/--no-floor",
    default=False,
    help="In training, time the matrix products of the weights' encoder alone as well.",
)
@depth_options
@limit_option
@memory_option
@common_options
def speed_command(
    session: Session,
    weights: tuple[str, ...],
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: tuple[int, ...],
    samples: int,
    similar: bool,
    work: Any,
    repeats: int,
    floor: bool,
    limit: float,
    memory: float,
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Time contenders on ListOps expressions in interleaved runs: medians, quartiles and recursion steps.

    The paper's speed test is 50 training steps at batch 1. Times are for one batch.

    \b
    Examples:
      crvnn bench speed --lengths 701-1000 --samples 10
      crvnn bench speed --weights untrained --lengths 1000 --lengths 2000 --floor
      crvnn bench speed --work forward --contender crvnn-hard --contender dense
      crvnn bench speed --batch 32 --contender crvnn --contender ordered-memory
      crvnn bench speed --weights untrained --similar --lengths 4-100
      crvnn bench speed --weights runs/mine --contender my-encoder
    """
    from crvnn_bench.experiments.speed import Round, compare, count_jobs
    from crvnn_bench.measurement.work import DESCRIPTIONS
    from crvnn_bench.workloads import read_range

    ranges = [read_range(text) for text in lengths]
    setups = [make_setup(session, weights=name, **setting) for name in dict.fromkeys(weights)]
    measured = []
    for setup in setups:
        contenders = contenders_of(session, setup)
        chosen = choose(names, _DEFAULT, contenders, training=work == "train")
        if floor and (work != "train" or contenders.encoder not in chosen):
            raise click.UsageError(
                f"--floor is about training steps of the contender {contenders.encoder}; it must be among them."
            )
        measured.append((contenders, chosen))
    rounds = [
        Round(
            lengths=span,
            batch=size,
            samples=samples,
            work=work,
            repeats=repeats,
            limit=limit,
            memory=memory * GIB,
            floor=floor,
            similar=similar,
        )
        for span in ranges
        for size in dict.fromkeys(batch)
    ]
    entries = []
    total = sum(count_jobs(chosen, round_) for _, chosen in measured for round_ in rounds)
    with counting(total, "measuring") as done:
        for contenders, chosen in measured:
            for round_ in rounds:
                entries += compare(contenders, chosen, round_, done)
    facts = {"work": work, "clock": DESCRIPTIONS[work], "samples": samples, "similar": similar}
    plain = [entry.plain() for entry in entries]
    results = results_of("speed", setups[0], out, facts=facts, entries=plain)
    if as_json:
        print_json(results)
        return
    columns = (
        "weights",
        "tokens",
        "batch",
        "contender",
        "ms a batch",
        "quartiles",
        first_column([chosen for _, chosen in measured]),
        "steps",
        "",
    )
    rows = [
        (
            entry.weights,
            entry.lengths,
            str(entry.batch),
            entry.contender,
            ms(entry.seconds),
            f"{ms(entry.low)} - {ms(entry.high)}" if entry.seconds is not None else "",
            "" if entry.against is None else f"{entry.against:.2f}",
            "" if entry.steps is None else f"{entry.steps:.1f}",
            entry.note,
        )
        for entry in entries
    ]
    print_table(columns, rows, right=(2, 4, 5, 6, 7))
    say(f"{DESCRIPTIONS[work]}; {setups[0].depth}", results)
    say_if_busy(entry.processor for entry in entries if setups[0].device == "cpu")
