"""What the commands measure: contenders on one workload, all encoders, growth with length, shortcuts.

Each gives rows of plain data, for tables and JSON.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import attrs
import torch
from attrs import define, field, frozen
from torch import Tensor

from crvnn_bench.contenders import Contenders
from crvnn_bench.memory import GIB, Peak, Request, measure, over_memory
from crvnn_bench.products import PRODUCTS, ProductsAlone, products_of
from crvnn_bench.timing import (
    Job,
    Timed,
    Work,
    exponent,
    interleave,
    perform,
    quartiles,
    ratio,
    ready,
    synchronizer,
)
from crvnn_bench.workloads import Range, random_batch, samples_of
from crvnn_core import Batch, CrvnnError, Example, Model
from crvnn_core.model.batch import collate
from crvnn_core.training.data import TOKEN_BUDGET, example_length, within_budget
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

Row = dict[str, Any]
Done = Callable[[int], None]
_WORST = 2.0  # the exponent of memory to assume after the first length
_OFF = -1.0  # a tolerance below every existence and left(c): nothing is dropped, nothing skipped


@frozen(kw_only=True)
class Round:
    """One workload, and how to measure it."""

    lengths: Range
    batch: int
    samples: int
    work: Work
    repeats: int
    #: Seconds that one repeat of a contender may take before it is measured fewer times.
    limit: float
    #: Bytes that one batch may take; a contender that needs more is not run. With infinitely many, nothing is tried
    #: beforehand.
    memory: float
    #: Whether to time the matrix products of the weights' encoder alone as well.
    floor: bool = False
    #: Whether the expressions of a batch have similar lengths, as in training.
    similar: bool = False

    @property
    def batches(self) -> int:
        return max(1, self.samples // self.batch)

    def jobs(self, names: Sequence[str]) -> int:
        """How many jobs ``compare`` will report as done."""
        return (len(names) + self.floor) * self.repeats * self.batches


def compare(
    contenders: Contenders, names: Sequence[str], round_: Round, done: Done = lambda number: None
) -> list[Row]:
    """The times of contenders on a workload in one interleaved run, each compared with the first.

    Times are seconds per batch; ``processor`` is the share of a core that a contender had.
    """
    setup, work = contenders.setup, round_.work
    jobs: dict[str, list[Job]] = {}
    notes: dict[str, str] = {}
    groups = samples_of(round_.lengths, round_.batch, round_.samples, setup.seed, similar=round_.similar)
    longest = max(map(example_length, chain(*groups)))
    for name in names:
        model = ready(work, contenders.build(name))
        batches = [model.batch(group).to(setup.device) for group in groups]
        refusal = _too_much(contenders, name, round_, longest)
        notes[name] = refusal or contenders.remark(name)
        jobs[name] = [] if refusal else [partial(perform, work, model, batch) for batch in batches]
        if jobs[name]:
            perform(work, model, batches[0].first(1))  # the warm-up
        if name == contenders.encoder and round_.floor and jobs[name]:
            products = [ProductsAlone(products_of(model, batch), setup.device) for batch in batches]
            products[0]()
            jobs[PRODUCTS] = list(products)
    timed = interleave(jobs, round_.repeats, round_.limit, synchronize=synchronizer(setup.device), done=done)
    rows = []
    for name, record in timed.items():
        note = notes.get(name, "")
        if record.cut:
            note = (
                f"over the limit of {round_.limit:g} s a repeat: measured on {record.jobs} of {len(groups)} "
                f"batches, {len(record.seconds)} of {round_.repeats} times"
            )
        steps = [float(result.double().mean()) for result in record.results if result is not None]
        rows.append(
            {
                "weights": setup.weights,
                "lengths": str(round_.lengths),
                "batch": round_.batch,
                "work": work,
                "contender": name,
                **_quartiles(record),
                "against": ratio(record, timed[names[0]]),
                "steps": statistics.mean(steps) if steps else None,
                "batches": record.jobs,
                "repeats": len(record.seconds),
                "processor": record.processor,
                "note": note,
            }
        )
    return rows


def _quartiles(timed: Timed) -> Row:
    """The median and the quartiles over repeats, in seconds for one job; ``None`` each if there were no jobs."""
    if not timed.jobs:
        return dict.fromkeys(("seconds", "low", "high"))
    low, middle, high = (value / timed.jobs for value in quartiles(timed.totals()))
    return {"seconds": middle, "low": low, "high": high}


def _too_much(contenders: Contenders, name: str, round_: Round, longest: int) -> str:
    """Why a batch is not run, judging by one sequence as long as its longest; empty if it is."""
    if round_.batch == 1 or math.isinf(round_.memory):
        return ""
    peak = measure(Request(setup=contenders.setup, contender=name, work=round_.work, lengths=str(longest)))
    if peak.bytes is None:
        return f"not run: {peak.note} with one sequence"
    return over_memory(round_.batch * peak.bytes, round_.memory)


def compare_encoders(
    contenders: Contenders,
    names: Sequence[str],
    lengths: Sequence[Range],
    round_: Round,
    counting: Callable[[int, str], Any],
) -> tuple[list[Row], list[float | None]]:
    """Time of an epoch and memory of a step, for each length and encoder; and the shares of a core that each had.

    Shorter lengths are measured first: an encoder for which one of them is too much is not tried at longer ones.

    :param round_: with the seconds and the bytes that a training step may take.
    :param counting: is given a number of jobs and what they are; returns what counts them.
    """
    rows: dict[tuple[Range, str], Row] = {}
    shares: list[float | None] = []
    refused: dict[str, Range] = {}
    for span in sorted(lengths, key=lambda span: span.high):
        peaks: dict[str, Peak] = {}
        with counting(len(names), f"memory, {span} tokens") as done:
            for name in names:
                if name in refused:
                    peaks[name] = Peak(None, note=f"not tried: {refused[name]} tokens were too much")
                else:
                    peaks[name] = _peak_of_step(contenders, name, span, round_)
                    if peaks[name].note:
                        refused[name] = span
                done(1)
        able = [name for name in names if not peaks[name].note]
        timed: dict[str, Row] = {}
        if able:  # a step of each was tried
            epoch = attrs.evolve(round_, lengths=span, limit=round_.limit * round_.batches, memory=math.inf)
            with counting(epoch.jobs(able), f"time, {span} tokens") as done:
                timed = {row["contender"]: row for row in compare(contenders, able, epoch, done)}
        shares += [row["processor"] for row in timed.values()]
        first = peaks[names[0]].tensors
        for name in names:
            row, peak = timed.get(name, {}), peaks[name]
            rows[span, name] = {
                "lengths": str(span),
                "contender": name,
                "seconds": row["seconds"] * round_.batches if row.get("seconds") is not None else None,
                "slower": row.get("against") if names[0] in timed else None,
                "bytes": peak.tensors,
                "larger": peak.tensors / first if peak.tensors is not None and first else None,
                "steps": row.get("steps"),
                "note": peak.note or row.get("note", ""),
            }
    return [rows[span, name] for span in lengths for name in names], shares


def _peak_of_step(contenders: Contenders, name: str, span: Range, round_: Round) -> Peak:
    try:
        contenders.build(name)  # so that an error is raised here, not in another process
    except CrvnnError as error:
        return Peak(None, note=f"not run: {error}")
    request = Request(
        setup=contenders.setup, contender=name, work="train", lengths=str(span), batch=round_.batch
    )
    return measure(attrs.evolve(request, tensors=True, limit=round_.limit, memory=round_.memory))


def peaks(
    contenders: Contenders, names: Sequence[str], lengths: Sequence[Range], batch: int, work: Work, done: Done
) -> list[Row]:
    """The peak memory of the work, for each length and contender, compared with the first."""
    for name in names:
        contenders.build(name)  # so that an error is raised here, not in another process
    rows = []
    for span in lengths:
        first = None
        for name in names:
            request = Request(
                setup=contenders.setup, contender=name, work=work, lengths=str(span), batch=batch
            )
            peak = measure(attrs.evolve(request, tensors=True))
            first = first or peak.bytes
            rows.append(
                {
                    "weights": contenders.setup.weights,
                    "lengths": str(span),
                    "batch": batch,
                    "work": work,
                    "contender": name,
                    "bytes": peak.bytes,
                    "against": peak.bytes / first if peak.bytes is not None and first else None,
                    "tensors": peak.tensors,
                    "steps": peak.steps,
                    "tokens": peak.tokens,
                    "measured": peak.method,
                    "note": peak.note or contenders.remark(name),
                }
            )
            done(1)
    return rows


@define
class _Curve:
    """The peak memory of a contender at the lengths measured so far."""

    lengths: list[int] = field(factory=list)
    bytes: list[int] = field(factory=list)
    stopped: str = ""

    def expected(self, length: int) -> float:
        """The bytes to expect at the next length, extrapolated from the last two."""
        if not self.bytes:
            return 0
        growth = exponent(self.lengths[-2:], self.bytes[-2:]) or _WORST
        return float(self.bytes[-1] * (length / self.lengths[-1]) ** growth)


def sweep(
    contenders: Contenders,
    names: Sequence[str],
    lengths: Sequence[int],
    *,
    repeats: int,
    limit: float,
    memory: float,
    done: Done = lambda number: None,
) -> Iterator[Row]:
    """A training step measured at each length: memory in fresh processes, then time in an interleaved run.

    :param limit: seconds that one step may take before a contender is measured once only.
    :param memory: bytes; a contender is not run at lengths where it would exceed them.
    """
    curves = {name: _Curve() for name in names}
    models = {name: ready("train", contenders.build(name)) for name in names}
    setup = contenders.setup
    for length in lengths:
        jobs: dict[str, list[Job]] = {}
        sizes: dict[str, int] = {}
        for name in names:
            curve = curves[name]
            if not curve.stopped and (expected := curve.expected(length)) > memory:
                curve.stopped = f"stopped: it would take some {expected / GIB:.1f} GiB of {memory / GIB:g}"
            if not curve.stopped:
                peak = measure(
                    Request(setup=setup, contender=name, work="train", lengths=str(length), random=True)
                )
                if peak.bytes is None:
                    curve.stopped = f"stopped: {peak.note}"
                else:
                    curve.lengths.append(length)
                    curve.bytes.append(max(1, peak.bytes))
                    sizes[name] = peak.bytes
                    batch = random_batch(length, models[name], setup.seed, setup.device)
                    jobs[name] = [partial(perform, "train", models[name], batch)]
            done(1)
        interleave(jobs, 1, synchronize=synchronizer(setup.device))  # the warm-up
        timed = interleave(jobs, repeats, limit, synchronize=synchronizer(setup.device))
        for name in names:
            record, note = timed.get(name, Timed()), curves[name].stopped
            if record.cut:
                note = f"measured {len(record.seconds)} of {repeats} times"
            times = _quartiles(record)
            yield {"contender": name, "length": length, **times, "bytes": sizes.get(name), "note": note}


def exponents(points: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """The exponents p with which time and memory of each contender grow as n ** p."""

    def grown(name: str, key: str) -> float | None:
        found = [(p["length"], p[key]) for p in points if p["contender"] == name and p[key]]
        return exponent([length for length, _ in found], [value for _, value in found])

    names = dict.fromkeys(point["contender"] for point in points)
    return {name: {"time": grown(name, "seconds"), "memory": grown(name, "bytes")} for name in names}


@frozen
class Setting:
    """Which shortcuts are taken; ``None`` for a tolerance switches that one off."""

    name: str
    shortcuts: bool = True
    drop: float | None = None
    skip: float | None = None
    hard: bool = False

    def build(self, contenders: Contenders) -> Model:
        """The weights' encoder with this setting."""
        name = contenders.encoder
        return self.apply(contenders.build(f"{name}-hard" if self.hard else name))

    def apply(self, model: Model) -> Model:
        """The model, changed to this setting."""
        encoder: Any = model.encoder
        encoder.shortcuts = self.shortcuts
        encoder.drop = _OFF if self.drop is None else self.drop
        encoder.skip = _OFF if self.skip is None else self.skip
        return model


def settings(contenders: Contenders, tolerances: Sequence[float]) -> list[Setting]:
    """No shortcut; each alone and both together at every tolerance; the model's own; hard inference if it has it."""
    encoder: Any = contenders.base.model.encoder
    if missing := [name for name in ("shortcuts", "drop", "skip") if not hasattr(encoder, name)]:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise CrvnnError(
            f"the encoder '{contenders.encoder}' has no shortcuts to measure: no setting {listed}"
        )
    found = [Setting("none", shortcuts=False)]
    for tolerance in tolerances:
        found.append(Setting(f"drop {tolerance:g}", drop=tolerance))
        found.append(Setting(f"skip {tolerance:g}", skip=tolerance))
        found.append(Setting(f"drop and skip {tolerance:g}", drop=tolerance, skip=tolerance))
    found.append(Setting("the model's own", encoder.shortcuts, encoder.drop, encoder.skip))
    return [*found, Setting("hard", hard=True)] if encoder.hard_inference else found


def rows_of(count: int, seed: int) -> list[Example]:
    """Test expressions of all lengths, which no shipped model was trained on."""
    made = islice(expressions(Recipe(), f"bench shortcuts {seed}", "test"), count)
    return [Example((tokens,), evaluate(tokens)) for tokens in made]


def effects(
    contenders: Contenders,
    examples: Sequence[Example],
    chosen: Sequence[Setting],
    counting: Callable[[int, str], Any],
) -> list[Row]:
    """The effect of every setting on encoding the examples, in one interleaved run; compared with the first.

    ``largest`` is the largest absolute change of a component of a sentence vector, and 99.9% of components change by no
    more than ``most``.
    """
    models = {setting.name: setting.build(contenders).eval() for setting in chosen}
    vocabulary, device = contenders.base.model.vocabulary, contenders.setup.device
    groups = [
        collate([examples[index] for index in group], vocabulary).to(device)
        for group in within_budget(examples, TOKEN_BUDGET)
    ]
    jobs = {name: [partial(_answers, model, group) for group in groups] for name, model in models.items()}
    for name in jobs:
        jobs[name][len(groups) // 2]()  # the warm-up
    with counting(len(groups) * len(chosen), "encoding") as done:
        timed = interleave(jobs, 1, synchronize=synchronizer(device), done=done)
    labels = torch.cat([group.labels for group in groups]).cpu()
    (without,), (exact, classes, _) = timed[chosen[0].name].totals(), _joined(timed[chosen[0].name])
    before = float((classes == labels).double().mean())
    rows = []
    for name, record in timed.items():
        (seconds,), (vectors, classes, steps) = record.totals(), _joined(record)
        changes, accuracy = (vectors - exact).abs().flatten(), float((classes == labels).double().mean())
        rows.append(
            {
                "setting": name,
                "seconds": seconds,
                "relative": seconds / without,
                "largest": float(changes.max()),
                "most": float(changes.kthvalue(max(1, round(0.999 * len(changes)))).values),
                "accuracy": accuracy,
                "difference": accuracy - before,
                "steps": float(steps.double().mean()),
            }
        )
    return rows


@torch.no_grad()
def _answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Sentence vectors, predicted classes and recursion steps."""
    output = model(batch)
    return output.encodings[0].vector, output.logits.argmax(-1), output.encodings[0].steps


def _joined(timed: Timed) -> list[Tensor]:
    """The answers to all batches."""
    return [torch.cat(part).cpu() for part in zip(*timed.results, strict=True)]
