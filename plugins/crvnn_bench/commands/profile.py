"""``crvnn bench profile``: the time of a training step by slot and by operation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from crvnn_bench.commands.options import common_options, contender_option, depth_options, weights_option
from crvnn_bench.commands.output import choose, contenders_of, make_setup, ms, results_of, say
from crvnn_core.cli.session import Session, counting, print_json, print_table

_DEFAULT = ("crvnn",)


@click.command("profile", short_help="Show where the time of a training step goes.")
@weights_option("listops")
@contender_option(*_DEFAULT)
@click.option("--lengths", default="701-1000", show_default=True, metavar="LOW-HIGH", help="Tokens.")
@click.option(
    "--batch", default=1, show_default=True, type=click.IntRange(min=1), help="Expressions at a time."
)
@click.option(
    "--samples", default=3, show_default=True, type=click.IntRange(min=1), help="Expressions in all."
)
@click.option("--top", default=15, show_default=True, type=click.IntRange(min=1), help="Operations to show.")
@depth_options
@common_options
def profile_command(
    session: Session,
    names: tuple[str, ...],
    lengths: str,
    batch: int,
    samples: int,
    top: int,
    out: Path | None,
    as_json: bool,
    **setting: Any,
) -> None:
    """Show where the time of a training step goes: by slot, and by operation.

    \b
    Examples:
      crvnn bench profile --weights untrained --lengths 1000
      crvnn bench profile --contender dense-retriever
    """
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "99"
    )  # before torch is imported: else the profiler logs its start

    from crvnn_bench.measurement.profile import profile_step
    from crvnn_bench.measurement.work import ready
    from crvnn_bench.workloads import read_range, samples_of

    span = read_range(lengths)
    setup = make_setup(session, **setting)
    contenders = contenders_of(session, setup)
    chosen = choose(names, _DEFAULT, contenders, training=True)
    groups = samples_of(span, batch, samples, setup.seed)
    profiles = {}
    with counting(len(chosen), "profiling") as done:
        for name in chosen:
            model = ready("train", contenders.build(name))
            batches = [model.batch(group).to(setup.device) for group in groups]
            profiles[name] = profile_step(model, batches)
            done(1)
    plain = {name: profile.plain() for name, profile in profiles.items()}
    results = results_of("profile", setup, out, lengths=str(span), batch=batch, profiles=plain)
    if as_json:
        print_json(results)
        return
    for name, profile in profiles.items():
        for title, shares in (("slot", profile.slots), ("operation", profile.operations[:top])):
            rows = [
                (
                    share.name,
                    ms(share.forward),
                    ms(share.backward),
                    f"{share.seconds / profile.seconds:.1%}",
                    f"{share.calls:,.0f}",
                )
                for share in shares
            ]
            columns = (f"{title} of {name}", "forward ms", "backward ms", "share", "calls")
            print_table(columns, rows, right=(1, 2, 3, 4))
            click.echo()
    say(f"one training step at {span} tokens, batch {batch}, weights '{setup.weights}', profiler on", results)
