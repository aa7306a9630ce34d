"""Training from Python: on the data of a task, or on texts and labels in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from attrs import evolve

from crvnn.specs import Spec, installed, read_spec
from crvnn_core.errors import InputError, Origin
from crvnn_core.host.catalog import Catalog
from crvnn_core.inference.trained import Trained, load
from crvnn_core.runs.directory import flatten
from crvnn_core.spec import PartSpec, RunSpec, TrainingSpec
from crvnn_core.spec.assembly import assemble
from crvnn_core.spec.layers import read_tables
from crvnn_core.spec.resolve import spec_layers
from crvnn_core.training.resume import resume_training
from crvnn_core.training.trainer import train as train_assembly
from crvnn_tasks import in_memory

#: Texts (or pairs of texts), and their labels.
Rows = tuple[Iterable[Any], Iterable[Any]]
#: An epoch has so many steps where the size of batches is not set and there are rows enough for batches of four.
_STEPS, _SMALLEST_BATCH = 16, 4
#: Settings that the tasks ``in-memory`` and ``from-file`` share.
_SHARED_SETTINGS = ("tokens", "lower", "min_count", "dev_share")


def train(
    spec: Spec | None = None,
    texts: Iterable[Any] | None = None,
    labels: Iterable[Any] | None = None,
    *,
    dev: Rows | None = None,
    test: Rows | None = None,
    out: Path | str | None = None,
    seed: int | None = None,
    progress: bool = True,
    catalog: Catalog | None = None,
) -> Trained:
    """Train what a spec describes, and return the model with the best weights and its ``results``.

    Without texts it is trained on the data of its task. Texts and labels take the place of the spec's task; settings
    of the task ``in-memory`` apply to them, as in ``{"task.tokens": "characters"}``. A spec that does not set
    ``training.batch`` gets smaller batches for fewer than 2,048 texts, so that an epoch has 16 steps; it is said.

    :param spec: a dictionary, the path of a file, or the name of a spec; without one, the defaults.
    :param texts: to train on; for a task on pairs, pairs of texts. A pandas Series or DataFrame or an array will do.
    :param labels: one for each text: strings, or numbers. Numbers that nearly all differ are refused, since a class for
        each would be trained; as strings they are classes.
    :param dev: texts and labels for development; without them, a tenth of the texts is held out (``task.dev_share``).
    :param test: texts and labels to evaluate the best weights on at the end.
    :param out: a new run directory, from which training can be resumed; without one nothing is written.
    :param seed: of all random numbers, instead of the spec's.
    :param progress: show how training goes, if the spec has the observer ``progress``.
    :param catalog: the components to choose from; by default those of all installed plug-ins.
    """
    catalog = catalog or installed()
    notes: list[str] = []
    if texts is not None or labels is not None:
        rows = _rows(texts, labels, dev, test)
        catalog = in_memory.catalog_with_rows(catalog, rows)
        own = _own_task(spec)
        read = _on_rows(read_spec(own, catalog=catalog), rows, catalog)
        if not _sets_batch(own, catalog):
            read, notes = _with_fitted_batch(read, len(rows["train"]))
    elif dev is not None or test is not None:
        raise InputError("dev and test are rows beside those to train on: give texts and labels as well")
    else:
        read = read_spec(spec, catalog=catalog)
    if seed is not None:
        read = evolve(read, seed=seed)
    assembly = assemble(read if progress else _silent(read), catalog)
    outcome = train_assembly(assembly, Path(out) if out is not None else None, notes=notes)
    if not outcome.finished:
        raise KeyboardInterrupt(f"{outcome.stopped}; crvnn.resume({str(out)!r}) continues")
    packages = tuple(assembly.packages)
    return Trained(read, assembly.task, assembly.model.eval(), outcome.results, packages=packages)


def resume(
    run: Path | str,
    texts: Iterable[Any] | None = None,
    labels: Iterable[Any] | None = None,
    *,
    dev: Rows | None = None,
    test: Rows | None = None,
    changes: Mapping[str, Any] | None = None,
    catalog: Catalog | None = None,
) -> Trained:
    """Continue a run that was stopped, or train a finished one for longer, and return the model.

    A run on texts in memory needs the same texts and labels again, since a run directory does not hold them.

    :param changes: how long and where it is trained: ``{"training.epochs": 20}``.
    """
    catalog = catalog or installed()
    if texts is not None or labels is not None:
        catalog = in_memory.catalog_with_rows(catalog, _rows(texts, labels, dev, test))
    found = resume_training(run, sets=_sets(changes or {}), catalog=catalog)
    if not found.finished:
        raise KeyboardInterrupt(f"interrupted; crvnn.resume({str(run)!r}) continues")
    return load(run, catalog)


def _rows(
    texts: Iterable[Any] | None, labels: Iterable[Any] | None, dev: Rows | None, test: Rows | None
) -> dict[str, tuple[in_memory.Row, ...]]:
    """The rows of each split that was given."""
    if texts is None or labels is None:
        raise InputError("give texts and labels, one label for each text")
    found = {"train": in_memory.read_rows(texts, labels)}
    for split, given in (("dev", dev), ("test", test)):
        if given is None:
            continue
        if not isinstance(given, tuple) or len(given) != 2:
            raise InputError(f"{split} is a tuple of texts and labels: {split}=(texts, labels)")
        found[split] = in_memory.read_rows(*given, split)
    arities = {split: len(rows[0].texts) for split, rows in found.items()}
    if len(set(arities.values())) > 1:
        listed = ", ".join(f"{number} in {split}" for split, number in arities.items())
        raise InputError(f"every split has the same number of texts in a row; there is {listed}")
    return found


def _own_task(spec: Spec | None) -> Spec:
    """The spec with the task ``in-memory``, if it is a dictionary (or nothing) that names no task."""
    if spec is None:
        return {"task": in_memory.NAME}
    if not isinstance(spec, Mapping):
        return spec
    tables = read_tables(spec, Origin("spec"))
    task = tables.get("task", {})
    if "extends" not in tables and isinstance(task, dict) and "name" not in task:
        tables["task"] = {"name": in_memory.NAME, **task}
    return tables


def _on_rows(spec: RunSpec, rows: Mapping[str, tuple[in_memory.Row, ...]], catalog: Catalog) -> RunSpec:
    """The spec with the task ``in-memory`` in place of its own, and with what the rows say of it."""
    facts = {"pairs": len(rows["train"][0].texts) == 2, "checksum": in_memory.checksum(rows)}

    def on_rows(task: PartSpec) -> PartSpec:
        if task.name != in_memory.NAME:
            shared = _SHARED_SETTINGS if task.name == "from-file" else ()
            settings = {key: task.params[key] for key in shared}
            task = read_spec({"task": {"name": in_memory.NAME, **settings}}, catalog=catalog).task
        return evolve(task, params={**task.params, **facts})

    return _everywhere(spec, "task", on_rows)


def _sets_batch(spec: Spec | None, catalog: Catalog) -> bool:
    """Whether a spec says how large batches are; one that was read before has every setting."""
    if isinstance(spec, RunSpec):
        return True
    return any("batch" in data.get("training", {}) for data, _, _ in spec_layers(catalog, spec))


def _with_fitted_batch(spec: RunSpec, rows: int) -> tuple[RunSpec, list[str]]:
    """The spec with batches that fit so many rows, where a stage does not set its own, and what to say about it."""
    batch = 2 ** int(math.log2(max(rows / _STEPS, _SMALLEST_BATCH)))
    if batch >= spec.training.batch:
        return spec, []
    stages = tuple(
        stage
        if ("training", "batch") in stage.given
        else evolve(stage, training=evolve(stage.training, batch=batch))
        for stage in spec.stages
    )
    fitted = evolve(spec, training=evolve(spec.training, batch=batch), stages=stages)
    default = spec.training.batch
    return fitted, [
        f"training.batch={batch} for {rows:,} texts, rather than {default}; set it for another size"
    ]


def _silent(spec: RunSpec) -> RunSpec:
    """The spec without the observer ``progress``."""

    def silent(training: TrainingSpec) -> TrainingSpec:
        kept = tuple(part for part in training.observers if part.name != "progress")
        return evolve(training, observers=kept)

    return _everywhere(spec, "training", silent)


def _everywhere(spec: RunSpec, name: str, change: Callable[[Any], Any]) -> RunSpec:
    """The spec with a table changed, in every stage too."""
    stages = tuple(evolve(stage, **{name: change(getattr(stage, name))}) for stage in spec.stages)
    return evolve(spec, stages=stages, **{name: change(getattr(spec, name))})


def _sets(changes: Mapping[str, Any]) -> list[str]:
    """Changes as ``key=value`` texts."""
    values = flatten(read_tables(changes, Origin("changes")))
    return [
        tomli_w.dumps({"value": value}).replace("value = ", f"{key}=", 1).strip()
        for key, value in values.items()
    ]
