"""``crvnn bench memory``: how much a training step takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import common_options, contender_option, depth_options, weights_option
from crvnn_bench.commands.output import contenders_of, make_setup, mib, results_of, say
from crvnn_core.cli.session import Session, counting, print_json, print_table


@click.command("memory")
@weights_option("listops", multiple=True)
@contender_option("crvnn", "crvnn-checkpointed", "dense")
@click.option(
    "--lengths",
    multiple=True,
    default=("1000",),
    show_default=True,
    metavar="LOW-HIGH",
    help="Tokens of the ListOps expressions, or one length. May be repeated.",
)
@click.option(
    "--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Expressions at a time."
)
@click.option(
    "--work",
    default="train",
    show_default=True,
    type=click.Choice(["train", "forward"]),
    help="A training step, or a forward pass.",
)
@depth_options
@common_options
def memory_command(
    session: Session,
    weights: tuple[str, ...],
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: int,
    work: Any,
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Measure the peak memory of one training step, every contender in a fresh process.

    The peak is that of the process; beside it stands what tensors took at most. The difference is the allocator's:
    the C library's often leaves as much again unused in holes, others (jemalloc) hardly anything.

    \b
    Examples:
      crvnn bench memory --lengths 1000
      crvnn bench memory --weights untrained --lengths 701-1000 --batch 8
    """
    from crvnn_bench.contenders.build import check_contenders
    from crvnn_bench.measurement.memory import Request, measure
    from crvnn_bench.workloads import read_range

    ranges = [read_range(text) for text in lengths]
    setups = [make_setup(session, weights=name, **setting) for name in dict.fromkeys(weights)]
    chosen = check_contenders(names, session.catalog, training=work == "train")
    for setup in setups:
        contenders_of(session, setup).build(
            chosen[0]
        )  # a mistake in the weights is told here, not by another process
    found: list[dict[str, Any]] = []
    with counting(len(setups) * len(ranges) * len(chosen), "measuring") as done:
        for setup in setups:
            for span in ranges:
                first = None
                for name in chosen:
                    asked = Request(
                        setup=setup, contender=name, work=work, lengths=span, batch=batch, tensors=True
                    )
                    peak = measure(asked)
                    first = first or peak.bytes
                    against = peak.bytes / first if peak.bytes is not None and first else None
                    found.append(
                        {
                            "weights": setup.weights,
                            "lengths": str(span),
                            "batch": batch,
                            "work": work,
                            "contender": name,
                            "bytes": peak.bytes,
                            "against": against,
                            "tensors": peak.tensors,
                            "steps": peak.steps,
                            "tokens": peak.tokens,
                            "measured": peak.method,
                            "note": peak.note,
                        }
                    )
                    done(1)
    results = results_of("memory", setups[0], out, entries=found)
    if as_json:
        print_json(results)
        return
    columns = (
        "weights",
        "tokens",
        "batch",
        "contender",
        "peak MiB",
        f"x {chosen[0]}",
        "tensors MiB",
        "steps",
        "",
    )
    rows = [
        (
            row["weights"],
            row["lengths"],
            str(batch),
            row["contender"],
            mib(row["bytes"]),
            "" if row["against"] is None else f"{row['against']:.2f}",
            mib(row["tensors"]),
            "" if row["steps"] is None else f"{row['steps']:.1f}",
            row["note"],
        )
        for row in found
    ]
    print_table(columns, rows, right=(2, 4, 5, 6, 7))
    say(f"{found[0]['measured']}; {setups[0].depth}", results)
