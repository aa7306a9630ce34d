"""The command group ``crvnn bench``. Importing it does not import torch."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, fields, frozen

from crvnn_bench.setup import ALONE, CRVNN, UNTRAINED, VARIANTS, Setup, environment, sentence
from crvnn_core.cli.session import Session, json_option, pass_session, print_json
from crvnn_core.display.progress import counting
from crvnn_core.display.tables import Table

if TYPE_CHECKING:
    from crvnn_bench.contenders import Contenders

Decorator = Callable[[Any], Any]
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
      crvnn bench memory --lengths 1000
      crvnn bench lengths --out lengths.json
      crvnn bench plot lengths.json --out lengths.svg
      crvnn bench shortcuts --rows 1000
      crvnn bench profile --lengths 701-1000
    """


@frozen
class Report:
    """What a command has measured."""

    setup: Setup
    #: What was measured, for the line below the tables.
    what: str
    tables: Sequence[Table]
    #: For JSON.
    found: dict[str, Any]
    #: The shares of a core that contenders had; a busy machine is mentioned.
    processors: Sequence[float | None] = ()


def _option(*names: str, default: Any, help: str, **how: Any) -> Decorator:
    """An option that shows its default, and may be repeated if that is a tuple."""
    if isinstance(default, tuple):
        how["multiple"], help = True, f"{help} May be repeated."
    return click.option(*names, default=default, show_default=True, help=help, **how)


_COMMON = (
    _option("--preset", default="paper", help="The preset of untrained models."),
    _option("--width", default=128, type=_POSITIVE, help="Width of untrained models."),
    _option("--seed", default=0, type=click.IntRange(min=0), help="Random seed."),
    click.option(
        "--threads",
        default=0,
        type=click.IntRange(0, 1024),
        help="Threads of torch.  [default: torch's own choice]",
    ),
    _option("--device", default="cpu", help="Device: cpu or cuda."),
    click.option(
        "-o", "--out", type=click.Path(path_type=Path), metavar="FILE", help="Save the results as JSON."
    ),
)


def _measurement(name: str, short_help: str, *own: Decorator) -> Decorator:
    """Makes a command of a function from contenders and the command's own options to a report, which is published."""

    def decorate(function: Callable[..., Report]) -> click.Command:
        @functools.wraps(function)
        def measure(session: Session, out: Path | None, as_json: bool, **options: Any) -> None:
            setting = {own.name: options.pop(own.name) for own in fields(Setup) if own.name in options}
            setup = Setup(**setting | {"plugins": [str(file) for file in session.files]})
            _publish(name, function(_contenders(session, setup), **options), out, as_json)

        command: Any = pass_session(measure)
        for option in (json_option, *reversed((*own, *_COMMON))):
            command = option(command)
        return bench.command(name, short_help=short_help)(command)

    return decorate


def _contenders(session: Session, setup: Setup) -> Contenders:
    """The contenders of a setup; sets torch's threads and flushes denormals."""
    os.environ.setdefault(
        "KINETO_LOG_LEVEL", "99"
    )  # before torch is imported: else the profiler logs its start
    import torch

    from crvnn_bench.contenders import Contenders
    from crvnn_core.errors import CrvnnError

    try:
        torch.zeros(1, device=setup.device)
    except (RuntimeError, AssertionError) as error:
        raise CrvnnError(f"--device {setup.device} cannot be used: {str(error).splitlines()[0]}") from None
    if setup.threads:
        torch.set_num_threads(setup.threads)
    torch.set_flush_denormal(True)  # as training does
    return Contenders(setup, session.catalog)


def _publish(kind: str, report: Report, out: Path | None, as_json: bool) -> None:
    """Save the results, and print them as JSON, or as tables with what was measured on which machine."""
    from crvnn_core.files import write_atomically

    setup = report.setup
    results = {"bench": kind, "environment": environment(setup), "setup": asdict(setup), **report.found}
    if out is not None:
        write_atomically(out, json.dumps(results, indent=2) + "\n")
    if as_json:
        print_json(results)
        return
    for table in report.tables:
        table.print()
        click.echo()
    click.echo(f"{report.what[0].upper()}{report.what[1:]}.\n{sentence(results['environment'])}.")
    least = min((share for share in report.processors if share is not None), default=1.0)
    if setup.device == "cpu" and least < _IDLE:
        click.echo(f"The machine was busy: contenders had a CPU core for only {least:.0%} of the time.")


def _table(rows: Sequence[dict[str, Any]], *columns: tuple[str, str] | tuple[str, str, Any]) -> Table:
    """A table of columns: a title, the key of its values, and how to write them if they are numbers.

    Numbers are written by a function or in a format, and stand to the right. The quartiles are those of the times.
    """

    def cell(row: dict[str, Any], key: str, form: Any = str) -> str:
        value = row["seconds" if key == "quartiles" else key]
        if value is None:
            return ""
        if key == "quartiles":
            return f"{_ms(row['low'])} - {_ms(row['high'])}"
        return str(form(value)) if callable(form) else format(value, form)

    titles = [column[0] for column in columns]
    right = [number for number, column in enumerate(columns) if len(column) > 2]
    return Table(titles, [[cell(row, *column[1:]) for column in columns] for row in rows], right)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f}" if seconds >= 0.1 else f"{1000 * seconds:.2f}"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f}"


def _contender(*default: str) -> Decorator:
    variants = ", ".join(name if name in ALONE else f"{CRVNN}-{name}" for name in VARIANTS)
    return click.option(
        "--contender",
        "names",
        multiple=True,
        metavar="NAME",
        help="What to measure; the others are compared with the first. May be repeated. Any installed encoder "
        f"('crvnn list encoders'), or a variant of one: {variants}, or as in my-encoder-hard.  "
        f"[default: {', '.join(default)}; with weights of another encoder, that one]",
    )


def _chosen(names: Sequence[str], default: Sequence[str], contenders: Contenders, work: str) -> list[str]:
    """The names of the contenders to measure, checked: those asked for, or the default for the weights."""
    from crvnn_bench.contenders import check_contenders

    return check_contenders(names or contenders.default(default), contenders.catalog, work == "train")


def _weights(default: str) -> Decorator:
    help = f"A run directory, an installed model, or '{UNTRAINED}'."
    return _option("--weights", default=default, metavar="RUN", help=help)


def _lengths(*default: str) -> Decorator:
    help = "Tokens of the ListOps expressions, or one length."
    return _option("--lengths", default=default, metavar="LOW-HIGH", help=help)


def _batch(default: Any) -> Decorator:
    return _option("--batch", default=default, type=_POSITIVE, help="Expressions at a time.")


def _samples(default: int) -> Decorator:
    help = "Expressions in an epoch, in whole batches."
    return _option("--samples", default=default, type=_POSITIVE, help=help)


def _repeats(default: int) -> Decorator:
    return _option("--repeats", default=default, type=_POSITIVE, help="Repeats of every measurement.")


def _limit(default: float, help: str) -> Decorator:
    return _option("--limit", default=default, type=_MORE_THAN_NOTHING, metavar="SECONDS", help=help)


_FEWER = "A contender that takes longer for one repeat is measured fewer times, and the table says so."
_MEMORY: Decorator = _option(
    "--memory",
    default=8.0,
    type=_MORE_THAN_NOTHING,
    metavar="GIB",
    help="What would take more memory than this is not run, and the table says so.",
)
_WORK: Decorator = _option(
    "--work",
    default="train",
    type=click.Choice(["train", "forward"]),
    help="A training step (forward, loss, backward; no optimizer), or a forward pass.",
)
_WITH_CHECKPOINTS = ("crvnn", "crvnn-checkpointed", "dense")
_CLOCK = {
    "train": "forward pass, loss and backward pass; the optimizer is outside the clock",
    "forward": "forward pass without gradients",
}


@_measurement(
    "speed",
    "Time encoders against each other.",
    _weights("listops"),
    _contender("crvnn", "dense"),
    _lengths(*RANGES),
    _batch((1,)),
    _samples(50),
    click.option(
        "--similar/--mixed",
        default=False,
        help="Batches of similar lengths, as training makes them, or of all lengths.  [default: mixed]",
    ),
    _WORK,
    _repeats(5),
    click.option(
        "--floor/--no-floor",
        default=False,
        help="In training, time the matrix products of the weights' encoder alone as well.",
    ),
    _limit(120.0, _FEWER),
    _MEMORY,
)
def _speed(
    contenders: Contenders,
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: tuple[int, ...],
    memory: float,
    **how: Any,
) -> Report:
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
    from crvnn_bench.experiments import Round, compare
    from crvnn_bench.workloads import read_range

    spans, work = [read_range(text) for text in lengths], how["work"]
    chosen = _chosen(names, ("crvnn", "dense"), contenders, work)
    if how["floor"] and (work != "train" or contenders.encoder not in chosen):
        raise click.UsageError(
            f"--floor is about training steps of the contender {contenders.encoder}; it must be among them."
        )
    rows = []
    for span in spans:
        for size in dict.fromkeys(batch):
            round_ = Round(lengths=span, batch=size, memory=memory * GIB, **how)
            rows += compare(contenders, chosen, round_)
    table = _table(
        rows,
        ("weights", "weights"),
        ("tokens", "lengths"),
        ("batch", "batch", "d"),
        ("contender", "contender"),
        ("ms a batch", "seconds", _ms),
        ("quartiles", "quartiles", ""),
        (f"x {chosen[0]}", "against", ".2f"),
        ("steps", "steps", ".1f"),
        ("", "note"),
    )
    setup, clock = contenders.setup, _CLOCK[work]
    facts = {"work": work, "clock": clock, "samples": how["samples"], "similar": how["similar"]}
    found = {"facts": facts, "entries": rows}
    processors = [row["processor"] for row in rows]
    return Report(setup, clock, [table], found, processors)


@_measurement(
    "encoders",
    "Compare all encoders: time of an epoch, memory.",
    click.option(
        "--contender",
        "names",
        multiple=True,
        metavar="NAME",
        help="An encoder to measure; the others are compared with the first. May be repeated.  [default: all]",
    ),
    _lengths("10-20", "50-100", "200-300"),
    _batch(16),
    _samples(32),
    _repeats(3),
    _limit(
        5.0,
        "An encoder whose training step takes longer is not run at that length and at longer ones; the table says so.",
    ),
    _MEMORY,
    _weights(UNTRAINED),
)
def _encoders(
    contenders: Contenders,
    names: tuple[str, ...],
    lengths: tuple[str, ...],
    batch: int,
    samples: int,
    memory: float,
    **how: Any,
) -> Report:
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
    from crvnn_bench.contenders import all_encoders, check_contenders
    from crvnn_bench.experiments import Round, compare_encoders
    from crvnn_bench.workloads import read_range

    spans = list(dict.fromkeys(map(read_range, lengths)))
    setup, catalog = contenders.setup, contenders.catalog
    chosen = check_contenders(names or all_encoders(catalog), catalog, training=True)
    samples = max(1, samples // batch) * batch
    round_ = Round(
        lengths=spans[0],
        batch=batch,
        samples=samples,
        work="train",
        memory=memory * GIB,
        similar=True,
        **how,
    )
    rows, processors = compare_encoders(contenders, chosen, spans, round_)
    table = _table(
        rows,
        ("tokens", "lengths"),
        ("encoder", "contender"),
        ("s an epoch", "seconds", ".2f"),
        (f"x {chosen[0]}", "slower", ".2f"),
        ("peak MiB", "bytes", _mib),
        (f"x {chosen[0]}", "larger", ".2f"),
        ("", "note"),
    )
    width, whose = contenders.base.model.encoder.width, "" if setup.weights == UNTRAINED else "weights "
    steps = f"epochs of {samples // batch} training steps of {batch} expressions"
    found = {"facts": {"batch": batch, "samples": samples}, "entries": rows}
    return Report(setup, f"{steps}, width {width}, {whose}{setup.weights}", [table], found, processors)


@_measurement(
    "memory",
    "Measure the peak memory of a training step.",
    _weights("listops"),
    _contender(*_WITH_CHECKPOINTS),
    _lengths("1000"),
    _batch(1),
    _WORK,
)
def _memory(
    contenders: Contenders, names: tuple[str, ...], lengths: tuple[str, ...], batch: int, work: Any
) -> Report:
    """Measure the peak memory of one training step, every contender in a fresh process.

    The peak is that of the process; beside it stands the peak of tensors alone. The difference is allocator overhead:
    fragmentation in the C library's allocator is often as large again, in others (jemalloc) small.

    \b
    Examples:
      crvnn bench memory --lengths 1000
      crvnn bench memory --weights untrained --lengths 701-1000 --batch 8
    """
    from crvnn_bench.experiments import peaks
    from crvnn_bench.workloads import read_range

    spans = [read_range(text) for text in lengths]
    chosen = _chosen(names, _WITH_CHECKPOINTS, contenders, work)
    rows = peaks(contenders, chosen, spans, batch, work)
    table = _table(
        rows,
        ("weights", "weights"),
        ("tokens", "lengths"),
        ("batch", "batch", "d"),
        ("contender", "contender"),
        ("peak MiB", "bytes", _mib),
        (f"x {chosen[0]}", "against", ".2f"),
        ("tensors MiB", "tensors", _mib),
        ("steps", "steps", ".1f"),
        ("", "note"),
    )
    setup = contenders.setup
    return Report(setup, rows[0]["measured"], [table], {"entries": rows})


@_measurement(
    "lengths",
    "Measure how time and memory grow with the length.",
    _weights(UNTRAINED),
    _contender(*_WITH_CHECKPOINTS),
    _option(
        "--length",
        "lengths",
        default=(1000, 2000, 4000, 8000, 16000, 32000),
        type=click.IntRange(min=4),
        help="Tokens of the random sequence.",
    ),
    _option("--depth", default=8, type=_POSITIVE, help="Recursion steps."),
    _repeats(3),
    _limit(120.0, _FEWER),
    _MEMORY,
)
def _growth(
    contenders: Contenders,
    names: tuple[str, ...],
    lengths: tuple[int, ...],
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
    from crvnn_bench.experiments import exponents, sweep

    contenders.setup = setup = evolve(contenders.setup, max_steps=depth)
    chosen = _chosen(names, _WITH_CHECKPOINTS, contenders, "train")
    points = list(sweep(contenders, chosen, sorted(set(lengths)), memory=memory * GIB, **how))
    grown = exponents(points)
    figures = _table(
        sorted(points, key=lambda point: (chosen.index(point["contender"]), point["length"])),
        ("contender", "contender"),
        ("tokens", "length", ",d"),
        ("ms", "seconds", _ms),
        ("quartiles", "quartiles", ""),
        ("peak MiB", "bytes", _mib),
        ("", "note"),
    )
    growth = _table(
        [{"contender": name, **grown[name]} for name in chosen],
        ("contender", "contender"),
        ("time grows as", "time", "n^{:.2f}".format),
        ("memory grows as", "memory", "n^{:.2f}".format),
    )
    found = {"width": contenders.base.model.encoder.width, "points": points, "exponents": grown}
    return Report(
        setup, f"training steps on random tokens; halting off, {depth} steps", [figures, growth], found
    )


@_measurement(
    "shortcuts",
    "Measure every shortcut, alone and together.",
    _weights("listops"),
    _option("--rows", default=10_000, type=_POSITIVE, help="Expressions of all lengths."),
    _option(
        "--tolerance",
        "tolerances",
        default=(0.0, 0.001, 0.01),
        type=click.FloatRange(0, 1, max_open=True),
        help="Tolerance of drop and skip.",
    ),
)
def _shortcuts(contenders: Contenders, rows: int, tolerances: tuple[float, ...]) -> Report:
    """Measure every shortcut, alone and together: the time that it saves, and what it changes.

    Dropping positions, skipping cells and hard inference are compared with the same model without shortcuts: in time,
    in the components of sentence vectors, and in accuracy.

    \b
    Examples:
      crvnn bench shortcuts --rows 1000
      crvnn bench shortcuts --weights runs/first --tolerance 0.001
    """
    from crvnn_bench.experiments import effects, settings

    setup = contenders.setup
    found = effects(contenders, rows, settings(contenders, list(dict.fromkeys(tolerances))))
    table = _table(
        found,
        ("setting", "setting"),
        ("seconds", "seconds", ".2f"),
        ("x none", "relative", ".3f"),
        ("largest change", "largest", ".2g"),
        ("99.9% below", "most", ".2g"),
        ("accuracy", "accuracy", ".2%"),
        ("difference", "difference", lambda share: f"{100 * share:+.2f}"),
        ("steps", "steps", ".1f"),
    )
    what = f"forward passes on {rows:,} expressions of all lengths, weights '{setup.weights}'"
    return Report(setup, what, [table], {"rows": rows, "effects": found})


@_measurement(
    "profile",
    "Show where the time of a training step goes.",
    _weights("listops"),
    _contender("crvnn"),
    _option("--lengths", default="701-1000", metavar="LOW-HIGH", help="Tokens."),
    _batch(1),
    _option("--samples", default=3, type=_POSITIVE, help="Expressions in all."),
    _option("--top", default=15, type=_POSITIVE, help="Operations to show."),
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
    from crvnn_bench.timing import ready
    from crvnn_bench.workloads import read_range, samples_of

    span, setup = read_range(lengths), contenders.setup
    groups = samples_of(span, batch, samples, setup.seed)
    profiles, chosen = {}, _chosen(names, ("crvnn",), contenders, "train")
    with counting(len(chosen), "profiling") as done:
        for name in chosen:
            model = ready("train", contenders.build(name))
            profiles[name] = profile_step(model, [model.batch(group).to(setup.device) for group in groups])
            done(1)
    tables = [
        _table(
            shares,
            (f"{title} of {name}", "name"),
            ("forward ms", "forward", _ms),
            ("backward ms", "backward", _ms),
            ("share", "share", ".1%"),
            ("calls", "calls", ",.0f"),
        )
        for name, found in profiles.items()
        for title, shares in (("slot", found["slots"]), ("operation", found["operations"][:top]))
    ]
    what = f"one training step at {span} tokens, batch {batch}, weights '{setup.weights}', profiler on"
    return Report(setup, what, tables, {"lengths": str(span), "batch": batch, "profiles": profiles})


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
