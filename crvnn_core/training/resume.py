"""Resuming a run, or the runs of several seeds. ``trainer.py`` restores the state, ``checkpoint.py`` is its file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from crvnn_core.errors import SpecError
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.runs import naming_missing_files
from crvnn_core.runs.directory import RunDirectory, flatten, seed_directory
from crvnn_core.runs.seeds import planned_seeds
from crvnn_core.spec import RunSpec, read_spec
from crvnn_core.spec.layers import override
from crvnn_core.training.seeds import RunOutcomes, Starting, train_all

#: Keys of ``[training]`` that may change when a run is resumed: none of them changes what is trained.
CHANGEABLE = (
    "epochs",
    "steps",
    "patience",
    "save_every",
    "optimizer.learning_rate",
    "accelerator",
    "devices",
    "threads",
    "observers",
)


def resume_training(
    directory: Path | str,
    *,
    sets: Sequence[str] = (),
    catalog: Catalog | None = None,
    starting: Starting | None = None,
) -> RunOutcomes:
    """Continue a run, or the runs of several seeds, from the last checkpoints, as ``crvnn train --resume`` does.

    :param directory: that of a run, or the ``out`` of ``train_seeds``; seeds that had not started are trained too,
        and so are those whose directory is missing.
    :param sets: ``training.epochs=20`` and the like; only the keys in ``CHANGEABLE`` can change.
    :param catalog: the components to build from; by default those of all installed plug-ins.
    :param starting: is called before each run.
    """
    _check_changes(sets)
    catalog = catalog or read_catalog(create_plugin_manager())
    group = RunDirectory(Path(directory))
    specs: dict[int | None, RunSpec] = {}
    seeds: list[int | None] = [*planned_seeds(group)]
    for seed in seeds or [None]:
        run = RunDirectory(seed_directory(group.path, seed))
        if run.spec.exists() or seed is None:
            run.check_spec()
            with naming_missing_files(run, catalog):
                specs[seed] = read_spec(catalog, run.spec, sets=sets)
        else:  # training was stopped before this seed
            specs[seed] = read_spec(catalog, group.seeds, sets=[*sets, f"seed={seed}"])
    return train_all(specs, group.path, catalog, starting, resume=True)


def _check_changes(sets: Sequence[str]) -> None:
    """Refuse a setting that would change what is trained."""
    for text in sets:
        data, origin = override(text)
        keys = [re.sub(r"^stages\.\d+\.", "", key) for key in flatten(data)]
        allowed = [f"training.{key}" for key in CHANGEABLE]
        if isinstance(data.get("stages"), list) or not all(key in allowed for key in keys):
            what = "this cannot change when a run is resumed"
            problem = origin.problem((), what, f"What can: {', '.join(allowed)}.")
            raise SpecError([problem])
