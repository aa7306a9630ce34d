"""What the commands measure: contenders on workloads, growth with length, shortcuts. All give rows of plain data."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import attrs
import torch
from attrs import frozen
from torch import Tensor

from crvnn_bench.contenders import Contender, Contenders
from crvnn_bench.memory import Peak, measure_peak, over_memory, too_large
from crvnn_bench.timing import Job, Timed, exponent, interleave, ratio
from crvnn_bench.workloads import Range, Workload
from crvnn_core import Batch, CrvnnError, Example
from crvnn_core.display.progress import counting
from crvnn_core.model.batch import collate
from crvnn_core.training.data import TOKEN_BUDGET, within_budget
from crvnn_tasks.listops.language import evaluate
from crvnn_tasks.listops.recipe import Recipe, expressions

Row = dict[str, Any]
_WORST = 2.0  # the exponent of memory to assume after the first length
_OFF = -1.0  # a tolerance below every existence and left(c): nothing is dropped, nothing skipped


def measure(
    contenders: Contenders,
    names: Sequence[str],
    loads: Sequence[Workload],
    *,
    memory: bool = False,
) -> list[Row]:
    """A row for each workload and contender, shorter lengths first; each is compared with the first contender.

    Times are seconds for one batch, from one interleaved run of all contenders; ``processor`` is the share of a core
    that a contender had. Memory is measured in a fresh process for each. A contender for which a length is too much is
    not tried at longer ones.
    """
    rows: list[Row] = []
    remarks = {name: contenders.remark(name) for name in names}
    sizes: dict[str, dict[int, int]] = {name: {} for name in names}  # bytes by length
    too_much: dict[str, Range] = {}
    for load in sorted(loads, key=lambda load: load.lengths.high):
        peaks = dict.fromkeys(names, Peak())
        if memory:
            with counting(len(names), f"memory, {load.lengths} tokens") as done:
                for name in names:
                    if name in too_much:
                        peaks[name] = Peak(note=f"not tried: {too_much[name]} tokens were too much")
                    else:
                        peaks[name] = _peak(contenders, name, load, sizes[name])
                    if peaks[name].note:
                        too_much.setdefault(name, load.lengths)
                    done(1)
        able = [name for name in names if not peaks[name].note]
        timed, notes = _time(contenders, able, load) if able else ({}, {})
        first, first_peak = timed.get(names[0], Timed()), peaks[names[0]].tensors
        for name in names:
            record, peak = timed.get(name, Timed()), peaks[name]
            steps = [float(result.double().mean()) for result in record.results]
            rows.append(
                {
                    "weights": contenders.setup.weights,
                    "lengths": str(load.lengths),
                    "length": load.lengths.high,
                    "batch": load.batch,
                    "work": load.work,
                    "contender": name,
                    **record.quartiles(),
                    "against": ratio(record, first),
                    "batches": record.jobs,
                    "repeats": len(record.seconds),
                    "processor": record.processor,
                    "bytes": peak.bytes,
                    "tensors": peak.tensors,
                    "larger": peak.tensors / first_peak if peak.tensors and first_peak else None,
                    "steps": statistics.mean(steps) if steps else None,
                    "note": peak.note or notes.get(name, remarks[name]),
                }
            )
    return rows


def _peak(contenders: Contenders, name: str, load: Workload, sizes: dict[int, int]) -> Peak:
    """The memory that a contender takes; or why it is not run.

    :param sizes: its bytes by length so far; what it takes now is added.
    """
    length = load.lengths.high
    if sizes:
        lengths, known = list(sizes)[-2:], list(sizes.values())[-2:]
        expected = known[-1] * (length / lengths[-1]) ** (exponent(lengths, known) or _WORST)
        if refusal := over_memory(expected, load.memory):
            return Peak(note=refusal)
    try:
        contenders.build(name)  # so that an error is told here, not by another process
    except CrvnnError as error:
        return Peak(note=f"not run: {error}")
    peak = measure_peak(contenders.setup, name, attrs.evolve(load, samples=load.batch))
    if peak.bytes is not None:
        sizes[length] = max(1, peak.bytes)
    return peak


def _time(
    contenders: Contenders, names: Sequence[str], load: Workload
) -> tuple[dict[str, Timed], dict[str, str]]:
    """The times of contenders on a workload, and what to say of those that were not run in full."""
    device = contenders.setup.device
    jobs: dict[str, list[Job]] = {}
    notes: dict[str, str] = {}
    for name in names:
        contender = contenders.build(name, load.work)
        batches, longest = load.batches(contender, contenders.setup)
        if refusal := too_large(contender, load, longest, device):
            notes[name], jobs[name] = refusal, []
            continue
        contender.perform(longest)  # the warm-up
        jobs[name] = [partial(contender.perform, batch) for batch in batches]
    count = max(map(len, jobs.values()))
    with counting(len(jobs) * load.repeats * count, f"{load.lengths} tokens, batch {load.batch}") as done:
        timed = interleave(jobs, load.repeats, load.limit, device=device, done=done)
    for name, record in timed.items():
        if record.cut:
            notes[name] = (
                f"over the limit of {load.limit:g} s a repeat: measured on {record.jobs} of {count} batches, "
                f"{len(record.seconds)} of {load.repeats} times"
            )
    return timed, notes


def exponents(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """The exponents p with which time and memory of each contender grow as n ** p."""

    def grown(name: str, key: str) -> float | None:
        found = [(row["length"], row[key]) for row in rows if row["contender"] == name and row[key]]
        return exponent([length for length, _ in found], [value for _, value in found])

    names = dict.fromkeys(row["contender"] for row in rows)
    return {name: {"time": grown(name, "seconds"), "memory": grown(name, "bytes")} for name in names}


@frozen
class Setting:
    """Which shortcuts are taken; a tolerance of ``_OFF`` switches that one off."""

    shortcuts: bool = True
    drop: float = _OFF
    skip: float = _OFF
    hard: bool = False

    def build(self, contenders: Contenders) -> Contender:
        """The weights' encoder with this setting, for forward passes."""
        contender = attrs.evolve(contenders.build(contenders.encoder, "forward"), hard=self.hard)
        encoder: Any = contender.model.encoder
        encoder.shortcuts, encoder.drop, encoder.skip = self.shortcuts, self.drop, self.skip
        return contender


def settings(contenders: Contenders, tolerances: Sequence[float]) -> dict[str, Setting]:
    """No shortcut; each alone and both together at every tolerance; the model's own; hard inference if it has it."""
    encoder: Any = contenders.base.model.encoder
    if missing := [name for name in ("shortcuts", "drop", "skip") if not hasattr(encoder, name)]:
        listed = ", ".join(f"'{name}'" for name in missing)
        raise CrvnnError(
            f"the encoder '{contenders.encoder}' has no shortcuts to measure: no setting {listed}"
        )
    found = {"none": Setting(shortcuts=False)}
    for tolerance in tolerances:
        found[f"drop {tolerance:g}"] = Setting(drop=tolerance)
        found[f"skip {tolerance:g}"] = Setting(skip=tolerance)
        found[f"drop and skip {tolerance:g}"] = Setting(drop=tolerance, skip=tolerance)
    found["the model's own"] = Setting(encoder.shortcuts, encoder.drop, encoder.skip)
    return found | ({"hard": Setting(hard=True)} if encoder.hard_inference else {})


def effects(contenders: Contenders, count: int, chosen: Mapping[str, Setting]) -> list[Row]:
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
    for name, setting in chosen.items():
        contender = setting.build(contenders)
        jobs[name] = [partial(_answers, contender, group) for group in groups]
        jobs[name][len(groups) // 2]()  # the warm-up
    with counting(len(groups) * len(chosen), "encoding") as done:
        timed = interleave(jobs, 1, device=device, done=done)
    labels = torch.cat([group.labels for group in groups]).cpu()
    rows: list[Row] = []
    for name, record in timed.items():
        vectors, classes, steps = (torch.cat(part).cpu() for part in zip(*record.results, strict=True))
        accuracy, (seconds,) = float((classes == labels).double().mean()), record.totals()
        if not rows:
            exact, first = vectors, {"seconds": seconds, "accuracy": accuracy}
        changes = (vectors - exact).abs().flatten()
        rows.append(
            {
                "setting": name,
                "seconds": seconds,
                "relative": seconds / first["seconds"],
                "largest": float(changes.max()),
                "most": float(changes.kthvalue(max(1, round(0.999 * len(changes)))).values),
                "accuracy": accuracy,
                "difference": accuracy - first["accuracy"],
                "steps": float(steps.double().mean()),
            }
        )
    return rows


def _answers(contender: Contender, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Sentence vectors, predicted classes and recursion steps."""
    output = contender.output(batch)
    return output.encodings[0].vector, output.logits.argmax(-1), output.encodings[0].steps
