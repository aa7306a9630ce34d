"""What the commands measure: contenders on one workload, all encoders, growth with length, shortcuts.

Each gives rows of plain data, for tables and JSON.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import attrs
import torch
from attrs import frozen
from torch import Tensor

from crvnn_bench.contenders import Contenders
from crvnn_bench.memory import GIB, METHOD, Peak, Request, measure, over_memory, tensor_peak
from crvnn_bench.products import PRODUCTS, products_alone, products_of
from crvnn_bench.timing import Job, Timed, Work, exponent, interleave, perform, ratio, ready, synchronizer
from crvnn_bench.workloads import Range, random_batch, samples_of
from crvnn_core import Batch, CrvnnError, Example, Model
from crvnn_core.display.progress import counting
from crvnn_core.model.batch import collate
from crvnn_core.training.data import TOKEN_BUDGET, example_length, within_budget
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

Row = dict[str, Any]
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
    #: Bytes that one batch may take; a contender that needs more is not run.
    memory: float
    #: Whether to time the matrix products of the weights' encoder alone as well.
    floor: bool = False
    #: Whether the expressions of a batch have similar lengths, as in training.
    similar: bool = False

    @property
    def batches(self) -> int:
        return max(1, self.samples // self.batch)


def compare(contenders: Contenders, names: Sequence[str], round_: Round) -> list[Row]:
    """The times of contenders on a workload in one interleaved run, each compared with the first.

    Times are seconds per batch; ``processor`` is the share of a core that a contender had.
    """
    setup, work = contenders.setup, round_.work
    jobs: dict[str, list[Job]] = {}
    notes: dict[str, str] = {}
    groups = samples_of(round_.lengths, round_.batch, round_.samples, setup.seed, similar=round_.similar)
    longest = [max(chain(*groups), key=example_length)]
    for name in names:
        model = ready(work, contenders.build(name))
        warm_up = partial(perform, work, model, model.batch(longest).to(setup.device))
        needed = 0
        if round_.batch == 1 or math.isinf(round_.memory):
            warm_up()
        else:
            needed = round_.batch * tensor_peak(warm_up, setup.device)
        refusal = over_memory(needed, round_.memory)
        notes[name] = refusal or contenders.remark(name)
        if refusal:
            jobs[name] = []
            continue
        batches = [model.batch(group).to(setup.device) for group in groups]
        jobs[name] = [partial(perform, work, model, batch) for batch in batches]
        if name == contenders.encoder and round_.floor:
            jobs[PRODUCTS] = [products_alone(products_of(model, batch), setup.device) for batch in batches]
            jobs[PRODUCTS][0]()
    what = f"{round_.lengths} tokens, batch {round_.batch}"
    with counting(len(jobs) * round_.repeats * len(groups), what) as done:
        timed = interleave(
            jobs, round_.repeats, round_.limit, synchronize=synchronizer(setup.device), done=done
        )
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
                **record.quartiles(),
                "against": ratio(record, timed[names[0]]),
                "steps": statistics.mean(steps) if steps else None,
                "batches": record.jobs,
                "repeats": len(record.seconds),
                "processor": record.processor,
                "note": note,
            }
        )
    return rows


def compare_encoders(
    contenders: Contenders, names: Sequence[str], lengths: Sequence[Range], round_: Round
) -> tuple[list[Row], list[float | None]]:
    """Time of an epoch and memory of a step, for each length and encoder; and the shares of a core that each had.

    Shorter lengths are measured first: an encoder for which one of them is too much is not tried at longer ones.

    :param round_: with the seconds and the bytes that a training step may take.
    """
    rows: dict[tuple[Range, str], Row] = {}
    shares: list[float | None] = []
    refused: dict[str, Range] = {}
    for span in sorted(lengths, key=lambda span: span.high):
        peaks: dict[str, Peak] = {}
        with counting(len(names), f"memory, {span} tokens") as done:
            for name in names:
                if name in refused:
                    peaks[name] = Peak(note=f"not tried: {refused[name]} tokens were too much")
                else:
                    peaks[name] = _peak_of_step(contenders, name, span, round_)
                    if peaks[name].note:
                        refused[name] = span
                done(1)
        timed: dict[str, Row] = {}
        if able := [name for name in names if not peaks[name].note]:
            epoch = attrs.evolve(round_, lengths=span, limit=round_.limit * round_.batches, memory=math.inf)
            timed = {row["contender"]: row for row in compare(contenders, able, epoch)}
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
        return Peak(note=f"not run: {error}")
    return measure(
        Request(
            setup=contenders.setup,
            contender=name,
            work="train",
            lengths=str(span),
            batch=round_.batch,
            limit=round_.limit,
            memory=round_.memory,
        )
    )


def peaks(
    contenders: Contenders, names: Sequence[str], lengths: Sequence[Range], batch: int, work: Work
) -> list[Row]:
    """The peak memory of the work, for each length and contender, compared with the first."""
    setup, rows = contenders.setup, []
    for name in names:
        contenders.build(name)  # so that an error is raised here, not in another process
    with counting(len(lengths) * len(names), "measuring") as done:
        for span in lengths:
            first = None
            for name in names:
                peak = measure(
                    Request(setup=setup, contender=name, work=work, lengths=str(span), batch=batch)
                )
                first = first or peak.bytes
                rows.append(
                    {
                        "weights": setup.weights,
                        "lengths": str(span),
                        "batch": batch,
                        "work": work,
                        "contender": name,
                        "bytes": peak.bytes,
                        "against": peak.bytes / first if peak.bytes is not None and first else None,
                        "tensors": peak.tensors,
                        "steps": peak.steps,
                        "tokens": peak.tokens,
                        "measured": METHOD,
                        "note": peak.note or contenders.remark(name),
                    }
                )
                done(1)
    return rows


def sweep(
    contenders: Contenders,
    names: Sequence[str],
    lengths: Sequence[int],
    *,
    repeats: int,
    limit: float,
    memory: float,
) -> Iterator[Row]:
    """A training step measured at each length: memory in fresh processes, then time in an interleaved run.

    :param limit: seconds that one step may take before a contender is measured once only.
    :param memory: bytes; a contender is not run at lengths where it would exceed them.
    """
    setup = contenders.setup
    models = {name: ready("train", contenders.build(name)) for name in names}
    known: dict[str, dict[int, int]] = {name: {} for name in names}  # bytes by length
    stopped: dict[str, str] = {}
    for length in lengths:
        jobs: dict[str, list[Job]] = {}
        with counting(len(names), f"{length:,} tokens") as done:
            for name in names:
                expected = _extrapolated(known[name], length)
                if expected > memory:
                    allowed = f"{expected / GIB:.1f} GiB of {memory / GIB:g}"
                    stopped.setdefault(name, f"stopped: it would take some {allowed}")
                if name not in stopped:
                    peak = measure(
                        Request(setup=setup, contender=name, work="train", lengths=str(length), random=True)
                    )
                    if peak.bytes is None:
                        stopped[name] = f"stopped: {peak.note}"
                    else:
                        known[name][length] = max(1, peak.bytes)
                        batch = random_batch(length, models[name], setup.seed, setup.device)
                        jobs[name] = [partial(perform, "train", models[name], batch)]
                done(1)
            interleave(jobs, 1, synchronize=synchronizer(setup.device))  # the warm-up
            timed = interleave(jobs, repeats, limit, synchronize=synchronizer(setup.device))
        for name in names:
            record, note = timed.get(name, Timed()), stopped.get(name, "")
            if record.cut:
                note = f"measured {len(record.seconds)} of {repeats} times"
            size = known[name].get(length)
            yield {"contender": name, "length": length, **record.quartiles(), "bytes": size, "note": note}


def _extrapolated(known: dict[int, int], length: int) -> float:
    """The bytes to expect at the next length, from those of the last two."""
    if not known:
        return 0.0
    lengths, sizes = list(known)[-2:], list(known.values())[-2:]
    growth = exponent(lengths, sizes) or _WORST
    return float(sizes[-1] * (length / lengths[-1]) ** growth)


def exponents(points: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """The exponents p with which time and memory of each contender grow as n ** p."""

    def grown(name: str, key: str) -> float | None:
        found = [(p["length"], p[key]) for p in points if p["contender"] == name and p[key]]
        return exponent([length for length, _ in found], [value for _, value in found])

    names = dict.fromkeys(point["contender"] for point in points)
    return {name: {"time": grown(name, "seconds"), "memory": grown(name, "bytes")} for name in names}


@frozen
class Setting:
    """Which shortcuts are taken; a tolerance of ``_OFF`` switches that one off."""

    name: str
    shortcuts: bool = True
    drop: float = _OFF
    skip: float = _OFF
    hard: bool = False

    def build(self, contenders: Contenders) -> Model:
        """The weights' encoder with this setting."""
        model = contenders.build(f"{contenders.encoder}-hard" if self.hard else contenders.encoder)
        encoder: Any = model.encoder
        encoder.shortcuts, encoder.drop, encoder.skip = self.shortcuts, self.drop, self.skip
        return model.eval()


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


def effects(contenders: Contenders, count: int, chosen: Sequence[Setting]) -> list[Row]:
    """The effect of every setting on encoding expressions, in one interleaved run; compared with the first.

    They have all lengths, and no shipped model was trained on them. ``largest`` is the largest absolute change of a
    component of a sentence vector, and 99.9% of components change by no more than ``most``.
    """
    made = islice(expressions(Recipe(), f"bench shortcuts {contenders.setup.seed}", "test"), count)
    examples = [Example((tokens,), evaluate(tokens)) for tokens in made]
    vocabulary, device = contenders.base.model.vocabulary, contenders.setup.device
    groups = [
        collate([examples[index] for index in group], vocabulary).to(device)
        for group in within_budget(examples, TOKEN_BUDGET)
    ]
    jobs: dict[str, list[Job]] = {}
    for setting in chosen:
        model = setting.build(contenders)
        jobs[setting.name] = [partial(_answers, model, group) for group in groups]
        jobs[setting.name][len(groups) // 2]()  # the warm-up
    with counting(len(groups) * len(chosen), "encoding") as done:
        timed = interleave(jobs, 1, synchronize=synchronizer(device), done=done)
    labels = torch.cat([group.labels for group in groups]).cpu()
    first = timed[chosen[0].name]
    exact = _joined(first)[0]
    rows: list[Row] = []
    for name, record in timed.items():
        vectors, classes, steps = _joined(record)
        changes = (vectors - exact).abs().flatten()
        (seconds,) = record.totals()
        rows.append(
            {
                "setting": name,
                "seconds": seconds,
                "relative": seconds / first.totals()[0],
                "largest": float(changes.max()),
                "most": float(changes.kthvalue(max(1, round(0.999 * len(changes)))).values),
                "accuracy": float((classes == labels).double().mean()),
                "steps": float(steps.double().mean()),
            }
        )
    for row in rows:
        row["difference"] = row["accuracy"] - rows[0]["accuracy"]
    return rows


@torch.no_grad()
def _answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Sentence vectors, predicted classes and recursion steps."""
    output = model(batch)
    return output.encodings[0].vector, output.logits.argmax(-1), output.encodings[0].steps


def _joined(timed: Timed) -> list[Tensor]:
    """The answers to all batches."""
    return [torch.cat(part).cpu() for part in zip(*timed.results, strict=True)]
