"""``crvnn bench memory``: the peak memory of a training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import common_options, contender_option, depth_options, weights_option
from crvnn_bench.commands.output import choose, contenders_of, first_column, make_setup, mib, results_of, say
from crvnn_core.cli.session import Session, counting, print_json, print_table

_DEFAULT = ("crvnn", "crvnn-checkpointed", "dense")


@click.command("memory", short_help="Measure the peak memory of a training step.")
@weights_option("listops", multiple=True)
@contender_option(*_DEFAULT)
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

    The peak is that of the process; beside it stands the peak of tensors alone. The difference is allocator overhead:
    fragmentation in the C library's allocator is often as large again, in others (jemalloc) small.

    \b
    Examples:
      crvnn bench memory --lengths 1000
      crvnn bench memory --weights untrained --lengths 701-1000 --batch 8
    """
    from crvnn_bench.measurement.memory import Request, measure
    from crvnn_bench.workloads import read_range

    ranges = [read_range(text) for text in lengths]
    setups = [make_setup(session, weights=name, **setting) for name in dict.fromkeys(weights)]
    measured = []
    for setup in setups:
        contenders = contenders_of(session, setup)
        chosen = choose(names, _DEFAULT, contenders, training=work == "train")
        for name in chosen:
            contenders.build(name)  # so that an error is raised here, not in another process
        measured.append((contenders, chosen))
    found: list[dict[str, Any]] = []
    with counting(len(ranges) * sum(len(chosen) for _, chosen in measured), "measuring") as done:
        for contenders, chosen in measured:
            setup = contenders.setup
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
                            "note": peak.note or contenders.remark(name),
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
        first_column([chosen for _, chosen in measured]),
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
