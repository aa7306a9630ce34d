"""The command group ``crvnn bench``. Importing it does not import torch."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, fields

from crvnn_bench.setup import UNTRAINED, Setup, environment, sentence, variant_names
from crvnn_core.cli.session import Session, json_option, pass_session, print_json
from crvnn_core.display.progress import counting
from crvnn_core.display.tables import Table

if TYPE_CHECKING:
    from crvnn_bench.contenders import Contenders

Decorator = Callable[[Any], Any]
#: What a command has measured, in a sentence; tables; and the results for JSON.
Report = tuple[str, Sequence[Table], dict[str, Any]]
GIB = 2**30
#: The lengths of the paper's speed test.
RANGES = ("81-100", "101-200", "201-500", "501-700", "701-1000")
_IDLE = 0.9  # least CPU seconds per wall-clock second on a machine that does nothing else
_POSITIVE = click.IntRange(min=1)
_MORE_THAN_NOTHING = click.FloatRange(min=0, min_open=True)


@click.group("bench")
def bench() -> None:
    """Measure encoders: time, memory, and the effect of every shortcut.

    Times are from interleaved runs of all contenders in one process; memory is measured in a fresh process for each.

    \b
    Examples:
      crvnn bench speed --lengths 701-1000 --contender crvnn --contender dense
      crvnn bench encoders --lengths 50-100
      crvnn bench lengths --out lengths.json
      crvnn bench plot lengths.json --out lengths.svg
      crvnn bench shortcuts --rows 1000
      crvnn bench profile --lengths 701-1000
    """


#: The options of commands by name; their defaults, which help shows, stand with the command.
_OPTIONS: dict[str, dict[str, Any]] = {
    "weights": {"metavar": "RUN", "help": f"A run directory, an installed model, or '{UNTRAINED}'."},
    "lengths": {"metavar": "LOW-HIGH", "help": "Tokens of the ListOps expressions, or one length."},
    "length": {"type": click.IntRange(min=4), "help": "Tokens of the random sequence."},
    "depth": {"type": _POSITIVE, "help": "Recursion steps."},
    "batch": {"type": _POSITIVE, "help": "Expressions at a time."},
    "samples": {"type": _POSITIVE, "help": "Expressions in all, in whole batches."},
    "work": {
        "type": click.Choice(["train", "forward"]),
        "help": "A training step (forward, loss, backward; no optimizer), or a forward pass.",
    },
    "repeats": {"type": _POSITIVE, "help": "Repeats of every measurement."},
    "limit": {
        "type": _MORE_THAN_NOTHING,
        "metavar": "SECONDS",
        "help": "A contender that takes longer for one repeat is measured fewer times, and the table says so.",
    },
    "memory": {
        "type": _MORE_THAN_NOTHING,
        "metavar": "GIB",
        "help": "What would take more memory than this is not run, and the table says so.",
    },
    "rows": {"type": _POSITIVE, "help": "Expressions of all lengths."},
    "tolerance": {"type": click.FloatRange(0, 1, max_open=True), "help": "Tolerance of drop and skip."},
    "top": {"type": _POSITIVE, "help": "Operations to show."},
    "preset": {"help": "The preset of untrained models."},
    "width": {"type": _POSITIVE, "help": "Width of untrained models."},
    "seed": {"type": click.IntRange(min=0), "help": "Random seed."},
    "threads": {"type": click.IntRange(0, 1024), "help": "Threads of torch; 0 for its own choice."},
    "device": {"help": "Device: cpu or cuda."},
}
_COMMON = {"preset": "paper", "width": 128, "seed": 0, "threads": 0, "device": "cpu"}
_OUT = click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the results as JSON."
)


def _option(name: str, default: Any, **how: Any) -> Decorator:
    """An option that may be repeated if its default is a tuple."""
    how = _OPTIONS[name] | how
    if isinstance(default, tuple):
        how |= {"multiple": True, "help": f"{how['help']} May be repeated."}
    return click.option(f"--{name}", default=default, show_default=True, **how)


def _measurement(name: str, short_help: str, *own: Decorator, **defaults: Any) -> Decorator:
    """Makes a command of a function from contenders and the command's own options to a report, which is published.

    :param defaults: of options that several commands have.
    """

    def decorate(function: Callable[..., Report]) -> click.Command:
        @functools.wraps(function)
        def measure(session: Session, out: Path | None, as_json: bool, **options: Any) -> None:
            setting = {own.name: options.pop(own.name) for own in fields(Setup) if own.name in options}
            setup = Setup(**setting | {"plugins": [str(file) for file in session.files]})
            contenders = _contenders(session, setup)
            _publish(name, contenders, function(contenders, **options), out, as_json)

        command: Any = pass_session(measure)
        options = [*own, *(_option(key, default) for key, default in (defaults | _COMMON).items())]
        for option in (json_option, _OUT, *reversed(options)):
            command = option(command)
        return bench.command(name, short_help=short_help)(command)

    return decorate


def _contenders(session: Session, setup: Setup) -> Contenders:
    # before torch is imported: else the profiler logs its start
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    from crvnn_bench.contenders import Contenders
    from crvnn_core.errors import CrvnnError

    try:
        torch.zeros(1, device=setup.device)
    except (RuntimeError, AssertionError) as error:
        raise CrvnnError(f"--device {setup.device} cannot be used: {str(error).splitlines()[0]}") from None
    setup.prepare()
    return Contenders(setup, session.catalog)


def _publish(kind: str, contenders: Contenders, report: Report, out: Path | None, as_json: bool) -> None:
    """Save the results, and print them as JSON, or as tables with what was measured on which machine."""
    from crvnn_core.files import write_atomically

    setup, (what, tables, found) = contenders.setup, report
    results = {"bench": kind, "environment": environment(setup), "setup": asdict(setup), **found}
    if out is not None:
        write_atomically(out, json.dumps(results, indent=2) + "\n")
    if as_json:
        print_json(results)
        return
    for table in tables:
        table.print()
        click.echo()
    click.echo(f"{what[0].upper()}{what[1:]}.\n{sentence(results['environment'])}.")
    shares = [row["processor"] for row in found.get("entries") or found.get("points") or ()]
    least = min((share for share in shares if share is not None), default=1.0)
    if setup.device == "cpu" and least < _IDLE:
        click.echo(f"The machine was busy: contenders had a CPU core for only {least:.0%} of the time.")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.2f}"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f}"


#: How the numbers of a row are written; all else is text.
_FORMS: dict[str, Callable[[Any], str]] = {
    "batch": str,
    "length": "{:,d}".format,
    **dict.fromkeys(("seconds", "forward", "backward"), _ms),
    "quartiles": str,
    **dict.fromkeys(("bytes", "tensors"), _mib),
    **dict.fromkeys(("against", "larger"), "{:.2f}".format),
    "relative": "{:.3f}".format,
    "steps": "{:.1f}".format,
    **dict.fromkeys(("time", "memory"), "n^{:.2f}".format),
    **dict.fromkeys(("largest", "most"), "{:.2g}".format),
    "accuracy": "{:.2%}".format,
    "difference": lambda share: f"{100 * share:+.2f}",
    "share": "{:.1%}".format,
    "calls": "{:,.0f}".format,
}


def _table(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> Table:
    """A table with the titles of some keys of its rows; numbers stand to the right."""

    def cell(row: Mapping[str, Any], key: str) -> str:
        if key == "quartiles":
            return "" if row["low"] is None else f"{_ms(row['low'])} - {_ms(row['high'])}"
        return "" if row[key] is None else _FORMS.get(key, str)(row[key])

    right = [number for number, key in enumerate(titles) if key in _FORMS]
    return Table(list(titles.values()), [[cell(row, key) for key in titles] for row in rows], right)


def _peak_titles(first: str) -> dict[str, str]:
    return {"tensors": "tensors MiB", "larger": f"x {first}", "bytes": "peak MiB"}


def _contender(*default: str) -> Decorator:
    return click.option(
        "--contender",
        "names",
        multiple=True,
        metavar="NAME",
        help="What to measure; the others are compared with the first. May be repeated. Any installed encoder "
        f"('crvnn list encoders'), or a variant of one: {', '.join(variant_names())}, or as in my-encoder-hard.  "
        f"[default: {', '.join(default)}; with weights of another encoder, that one]",
    )


_WITH_CHECKPOINTS = ("crvnn", "crvnn-checkpointed", "dense")
_CLOCK = {
    "train": "forward pass, loss and backward pass; the optimizer is outside the clock",
    "forward": "forward pass without gradients",
}


@_measurement(
    "speed",
    "Time encoders against each other.",
    _contender("crvnn", "dense"),
    click.option(
        "--similar/--mixed",
        default=False,
        help="Batches of similar lengths, as training makes them, or of all lengths.  [default: mixed]",
    ),
    click.option("--peaks", is_flag=True, help="Measure the peak memory of a batch as well."),
    weights="listops",
    lengths=RANGES,
    batch=(1,),
    samples=50,
    work="train",
    repeats=5,
    limit=120.0,
    memory=8.0,
)
def _speed(
    contenders: Contenders,
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: tuple[int, ...],
    memory: float,
    peaks: bool,
    **how: Any,
) -> Report:
    """Time contenders on ListOps expressions in interleaved runs: medians, quartiles and recursion steps.

    The paper's speed test is 50 training steps at batch 1. Times are for one batch. With --peaks its peak memory is
    measured, too, every contender in a fresh process: that of the process, and that of tensors alone. The difference is
    allocator overhead: fragmentation in the C library's allocator is often as large again.

    \b
    Examples:
      crvnn bench speed --lengths 701-1000 --samples 10
      crvnn bench speed --weights untrained --lengths 1000 --lengths 2000 --peaks
      crvnn bench speed --work forward --contender crvnn-hard --contender dense
      crvnn bench speed --batch 32 --contender crvnn --contender ordered-memory
      crvnn bench speed --weights untrained --similar --lengths 4-100
      crvnn bench speed --weights runs/mine --contender my-encoder
    """
    from crvnn_bench.experiments import measure
    from crvnn_bench.workloads import Workload, read_range

    work = how["work"]
    chosen = contenders.choose(names, ("crvnn", "dense"), work)
    loads = [
        Workload(lengths=read_range(text), batch=size, memory=memory * GIB, **how)
        for text in lengths
        for size in dict.fromkeys(batch)
    ]
    rows = measure(contenders, chosen, loads, memory=peaks)
    titles = {"weights": "weights", "lengths": "tokens", "batch": "batch", "contender": "contender"}
    titles |= {"seconds": "ms a batch", "quartiles": "quartiles", "against": f"x {chosen[0]}"}
    titles |= {"steps": "steps"} | (_peak_titles(chosen[0]) if peaks else {})
    facts = {"work": work, "clock": _CLOCK[work], "samples": how["samples"], "similar": how["similar"]}
    return _CLOCK[work], [_table(rows, titles | {"note": ""})], {"facts": facts, "entries": rows}


@_measurement(
    "encoders",
    "Compare all encoders: time and memory of a training step.",
    click.option(
        "--contender",
        "names",
        multiple=True,
        metavar="NAME",
        help="An encoder to measure; the others are compared with the first. May be repeated.  [default: all]",
    ),
    _option(
        "limit",
        5.0,
        help="An encoder whose training step takes longer is not run at that length and at longer ones; the table "
        "says so.",
    ),
    weights=UNTRAINED,
    lengths=("10-20", "50-100", "200-300"),
    batch=16,
    samples=32,
    repeats=3,
    memory=8.0,
)
def _encoders(
    contenders: Contenders,
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: int,
    samples: int,
    memory: float,
    limit: float,
    repeats: int,
) -> Report:
    """Compare encoders of equal width: the time and the peak memory of a training step.

    Steps are timed in interleaved runs of all encoders in one process, without the optimizer; medians are shown.
    Memory is measured in a fresh process for each. An encoder that cannot do a workload, or not within the limits, is
    listed with the reason; so the defaults take about ten minutes of one core. With --weights the encoder that they are
    for has them, and the others are untrained. crvnn-self-training is crvnn with the objective 'self-training':
    composition along the best of four sampled trees, in place of soft ones.

    \b
    Examples:
      crvnn bench encoders
      crvnn bench encoders --contender crvnn --contender gumbel-tree --lengths 100
      crvnn bench encoders --weights listops --threads 1 --out encoders.json
    """
    from crvnn_bench.experiments import measure
    from crvnn_bench.workloads import Workload, read_range

    chosen = contenders.choose(names or contenders.all_encoders, (), "train")
    steps = max(1, samples // batch)
    loads = [
        Workload(
            lengths=read_range(text),
            batch=batch,
            samples=samples,
            similar=True,
            repeats=repeats,
            limit=limit * steps,
            step_limit=limit,
            memory=memory * GIB,
        )
        for text in dict.fromkeys(lengths)
    ]
    rows = measure(contenders, chosen, loads, memory=True)
    titles = {
        "lengths": "tokens",
        "contender": "encoder",
        "seconds": "ms a step",
        "against": f"x {chosen[0]}",
    }
    table = _table(rows, titles | _peak_titles(chosen[0]) | {"note": ""})
    width, weights = contenders.base.model.encoder.width, contenders.setup.weights
    what = f"{steps} training steps of {batch} expressions, width {width}, weights '{weights}'"
    return what, [table], {"facts": {"batch": batch, "samples": steps * batch}, "entries": rows}


@_measurement(
    "lengths",
    "Measure how time and memory grow with the length.",
    _contender(*_WITH_CHECKPOINTS),
    weights=UNTRAINED,
    length=(1000, 2000, 4000, 8000, 16000, 32000),
    depth=8,
    repeats=3,
    limit=120.0,
    memory=8.0,
)
def _growth(
    contenders: Contenders,
    names: tuple[str, ...],
    length: tuple[int, ...],
    depth: int,
    memory: float,
    **how: Any,
) -> Report:
    """Measure how time and memory of a training step grow with length, at fixed depth.

    The exponents are the p of n ** p, by linear regression in log-log space.

    \b
    Examples:
      crvnn bench lengths --out lengths.json
      crvnn bench lengths --contender crvnn --length 1000 --length 32000
    """
    from crvnn_bench.experiments import exponents, measure
    from crvnn_bench.workloads import Range, Workload

    contenders.setup = evolve(contenders.setup, max_steps=depth)
    chosen = contenders.choose(names, _WITH_CHECKPOINTS, "train")
    loads = [
        Workload(lengths=Range(tokens, tokens), random=True, memory=memory * GIB, **how)
        for tokens in dict.fromkeys(length)
    ]
    rows = measure(contenders, chosen, loads, memory=True)
    grown = exponents(rows)
    titles = {"contender": "contender", "length": "tokens", "seconds": "ms", "quartiles": "quartiles"}
    by_contender = sorted(rows, key=lambda row: chosen.index(row["contender"]))
    figures = _table(by_contender, titles | {"bytes": "peak MiB", "note": ""})
    titles = {"contender": "contender", "time": "time grows as", "memory": "memory grows as"}
    growth = _table([{"contender": name, **grown[name]} for name in chosen], titles)
    found = {"width": contenders.base.model.encoder.width, "points": rows, "exponents": grown}
    return f"training steps on random tokens; halting off, {depth} steps", [figures, growth], found


@_measurement(
    "shortcuts",
    "Measure every shortcut, alone and together.",
    weights="listops",
    rows=10_000,
    tolerance=(0.0, 0.001, 0.01),
)
def _shortcuts(contenders: Contenders, rows: int, tolerance: tuple[float, ...]) -> Report:
    """Measure every shortcut, alone and together: the time that it saves, and what it changes.

    Dropping positions, skipping cells and hard inference are compared with the same model without shortcuts: in time,
    in the components of sentence vectors, and in accuracy.

    \b
    Examples:
      crvnn bench shortcuts --rows 1000
      crvnn bench shortcuts --weights runs/first --tolerance 0.001
    """
    from crvnn_bench.experiments import effects, settings

    found = effects(contenders, rows, settings(contenders, tolerance))
    titles = {"setting": "setting", "seconds": "ms", "relative": "x none", "largest": "largest change"}
    titles |= {"most": "99.9% below", "accuracy": "accuracy", "difference": "difference", "steps": "steps"}
    what = f"forward passes on {rows:,} expressions of all lengths, weights '{contenders.setup.weights}'"
    return what, [_table(found, titles)], {"rows": rows, "effects": found}


@_measurement(
    "profile",
    "Show where the time of a training step goes.",
    _contender("crvnn"),
    weights="listops",
    lengths="701-1000",
    batch=1,
    samples=3,
    top=15,
)
def _profile(
    contenders: Contenders, names: tuple[str, ...], lengths: str, batch: int, samples: int, top: int
) -> Report:
    """Show where the time of a training step goes: by slot, and by operation.

    \b
    Examples:
      crvnn bench profile --weights untrained --lengths 1000
      crvnn bench profile --contender dense-retriever
    """
    from crvnn_bench.profile import profile_step
    from crvnn_bench.workloads import Workload, read_range

    load = Workload(lengths=read_range(lengths), batch=batch, samples=samples)
    profiles, chosen = {}, contenders.choose(names, ("crvnn",), "train")
    with counting(len(chosen), "profiling") as done:
        for name in chosen:
            contender = contenders.build(name)
            profiles[name] = profile_step(contender, load.batches(contender, contenders.setup)[0])
            done(1)
    titles = {"forward": "forward ms", "backward": "backward ms", "share": "share", "calls": "calls"}
    tables = [
        _table(shares, {"name": f"{title} of {name}"} | titles)
        for name, found in profiles.items()
        for title, shares in (("slot", found["slots"]), ("operation", found["operations"][:top]))
    ]
    weights = contenders.setup.weights
    what = f"one training step at {load.lengths} tokens, batch {batch}, weights '{weights}', profiler on"
    return what, tables, {"lengths": str(load.lengths), "batch": batch, "profiles": profiles}


@bench.command("plot", short_help="Plot the results of 'crvnn bench lengths'.")
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The SVG file to write.",
)
def _plot(results: Path, out: Path) -> None:
    """Plot the RESULTS of 'crvnn bench lengths': time and memory against length, as SVG.

    This needs matplotlib: pip install 'crvnn[plot]'.

    \b
    Examples:
      crvnn bench lengths --out lengths.json
      crvnn bench plot lengths.json --out lengths.svg
    """
    from crvnn_bench.plot import draw, read_results
    from crvnn_core.files import write_atomically

    write_atomically(out, draw(read_results(results)))
    click.echo(f"The plot is in {out}.")
