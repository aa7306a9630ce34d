"""Training one run or several that differ in their seed, and their accuracy over seeds."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.runs.directory import RunDirectory, seed_directories, seed_directory
from crvnn_core.runs.results import spread
from crvnn_core.runs.seeds import seeds_note
from crvnn_core.spec import RunSpec, write_spec
from crvnn_core.spec.assembly import Assembly, assemble
from crvnn_core.training.devices import heartbeats, launched
from crvnn_core.training.run import Outcome, threads_of
from crvnn_core.training.trainer import train

#: Is called in the first process before each run: its directory, the assembled run, and whether it is resumed.
Starting = Callable[[Path, Assembly, bool], None]


@frozen
class RunOutcomes:
    """How the training of one run or of several seeds ended."""

    directory: Path
    #: By run directory, in the order of training; the last one is unfinished if training was interrupted.
    outcomes: Mapping[Path, Outcome]
    #: Whether this is the first of several processes, the one that reports.
    first_process: bool = True

    @property
    def finished(self) -> bool:
        """Whether no run was interrupted."""
        return all(outcome.finished for outcome in self.outcomes.values())

    @property
    def summary(self) -> dict[str, Any] | None:
        """Accuracies over several seeds, for every split and group; ``None`` of one run or unfinished ones."""
        if len(self.outcomes) < 2 or not self.finished:
            return None
        results = [outcome.results for outcome in self.outcomes.values()]
        splits: dict[str, Any] = {}
        for split, first in results[0].items():
            groups = {"all": [result[split].total.accuracy for result in results]}
            for bucket in first.buckets:
                found = [result[split].buckets.get(bucket) for result in results]
                groups[bucket] = [score.accuracy for score in found if score is not None]
            splits[split] = {name: spread(values) for name, values in groups.items()}
        return {"runs": len(results), "splits": splits}

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        runs = {str(path): outcome.plain() for path, outcome in self.outcomes.items()}
        return {"directory": str(self.directory), "runs": runs, "summary": self.summary}


def train_seeds(
    spec: RunSpec,
    out: Path | str,
    *,
    seeds: int | None = None,
    catalog: Catalog | None = None,
    starting: Starting | None = None,
) -> RunOutcomes:
    """Train a spec from several seeds, as ``crvnn train --seeds`` does.

    :param out: a new directory, which gets a run directory ``seed-N`` for each seed, and ``summary.json``.
    :param seeds: how many, from the spec's seed upwards. ``None`` trains the spec's seed alone, into ``out`` itself.
    :param catalog: the components to build from; by default those of all installed plug-ins.
    :param starting: is called before each run.
    """
    catalog = catalog or read_catalog(create_plugin_manager())
    return train_all(specs_of_seeds(spec, seeds), Path(out), catalog, starting)


def new_directory(name: str, parent: Path = Path("runs")) -> Path:
    """The first of ``runs/NAME``, ``runs/NAME-2``, ... that does not exist."""
    numbered = (parent / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(path for path in numbered if not path.exists())


def specs_of_seeds(spec: RunSpec, seeds: int | None) -> dict[int | None, RunSpec]:
    """The spec of each seed, from its own upwards; of a run that is no group of seeds, the spec itself for ``None``."""
    if seeds is None:
        return {None: spec}
    return {seed: evolve(spec, seed=seed) for seed in range(spec.seed, spec.seed + seeds)}


def train_all(
    specs: Mapping[int | None, RunSpec],
    out: Path,
    catalog: Catalog,
    starting: Starting | None = None,
    *,
    resume: bool = False,
) -> RunOutcomes:
    """Train one run after another, until one is interrupted, and write the summary of several.

    :param specs: by seed, whose run is in a subdirectory of ``out``; a run for ``None`` is in ``out`` itself.
    """
    first = next(iter(specs))
    threads = threads_of(RunDirectory(seed_directory(out, first))) if resume else 0
    fabric = launched(specs[first].training, threads)  # from here on there may be several processes
    group = RunDirectory(Path(fabric.broadcast(str(out))))
    alone, outcomes = first is None, {}
    locked = contextlib.nullcontext() if alone or not fabric.is_global_zero else group.lock(create=not resume)
    with heartbeats(fabric, group.path), locked:
        if fabric.is_global_zero and not (alone or resume):
            _create_group(group, specs)
        fabric.barrier()
        for seed, spec in specs.items():
            path = seed_directory(group.path, seed)
            # As the first process finds it: the others may come when it has already begun this run.
            resumed = fabric.broadcast(resume and RunDirectory(path).spec.exists())
            assembly = assemble(spec, catalog)
            if starting is not None and fabric.is_global_zero:
                starting(path, assembly, resumed)
            outcomes[path] = train(assembly, path, resume=resumed, fabric=fabric)
            if not outcomes[path].finished:
                break
        found = RunOutcomes(group.path, outcomes, bool(fabric.is_global_zero))
        if found.summary is not None and found.first_process:
            group.write_json(group.summary, found.summary)
    return found


def _create_group(group: RunDirectory, specs: Mapping[int | None, RunSpec]) -> None:
    """Write what the runs of several seeds share; an error if the directory holds a run."""
    if group.spec.exists() or group.seeds.exists() or seed_directories(group.path):
        raise CrvnnError(f"{group.path} holds a run already; choose another --out, or --resume it")
    write_spec(next(iter(specs.values())), group.seeds, [seeds_note(len(specs))])
    for seed in specs:
        seed_directory(group.path, seed).mkdir(parents=True, exist_ok=True)
