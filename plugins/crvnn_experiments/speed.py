"""The time of training steps on expressions of several lengths, measured with ``crvnn bench``'s means."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crvnn_core.spec import RunSpec
from crvnn_experiments.ledger import Entry, device_of, new_entry
from crvnn_experiments.worker import Clock

if TYPE_CHECKING:
    from crvnn_experiments.plan import Run


def measure_speed(run: Run, spec: RunSpec, clock: Clock) -> list[Entry]:
    """An entry for each range of lengths that the ledger lacks: minutes for its expressions, one at a time.

    A seed is a repeat; repeats of different rows take turns, since the plan has the first seed of every row first.
    """
    import torch

    from crvnn_bench.contenders import Contender
    from crvnn_bench.timing import interleave
    from crvnn_bench.workloads import read_range, samples_of
    from crvnn_core import set_progress
    from crvnn_core.spec.assembly import assemble

    device = device_of(spec)
    torch.set_num_threads(spec.training.threads or torch.get_num_threads())
    torch.set_flush_denormal(True)  # as training does
    model = assemble(spec, run.plan.catalog).model.to(device)
    set_progress(model, 1.0)
    contender = Contender(model.train())
    found = []
    for test in run.tests:
        if run.is_recorded(test):
            continue
        groups = samples_of(read_range(test["lengths"]), 1, test["samples"], seed=0)
        batches = [model.batch(group).to(device) for group in groups]
        contender.perform(batches[0])  # the warm-up
        jobs = {run.row.name: [partial(contender.perform, batch) for batch in batches]}
        timed = interleave(jobs, 1, device=device)[run.row.name]
        share = 50 / len(batches)  # the paper's minutes are those of 50 expressions
        figures = {"test": share * timed.wall / 60, "processor": timed.processor or 0.0}
        facts = {"figures": figures, "examples": {"test": len(batches)}, "test": dict(test)}
        found.append(new_entry(run, spec, clock, **facts))
    return found
