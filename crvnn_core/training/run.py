"""A run: how it ended, what it writes to its directory (spec, vocabulary, environment, checkpoints) and reads back."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch
from attrs import asdict, frozen
from torch import Tensor

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec import spec_dict, write_spec
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training import checkpoint
from crvnn_core.training.evaluation import Result
from crvnn_core.training.stages import check_ended_stages


@frozen
class Outcome:
    """How training ended."""

    step: int
    best_step: int
    results: Mapping[str, Result]  # of the best weights, by split
    stopped: str = ""  # why it ended before its last step, if it did
    finished: bool = True  # false if it was interrupted and can be resumed

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        results = {split: result.plain() for split, result in self.results.items()}
        return {**asdict(self, recurse=False), "results": results}


def create_run(run: RunDirectory, assembly: Assembly) -> None:
    """Make the directory and write vocabulary, environment and spec; an error if it already holds a run."""
    if run.spec.exists() or run.seeds.exists():
        raise CrvnnError(
            f"{run.path} holds a run already. Resume it with 'crvnn train --resume {run.path}', "
            "or choose another --out."
        )
    lexicon = {
        "tokens": list(assembly.model.vocabulary.tokens),
        "classes": list(assembly.task.classes),
        "vector_size": assembly.model.embed.weight.shape[1],
    }
    run.write_json(run.lexicon, lexicon)
    run.write_json(run.environment, environment(assembly))
    write_spec(assembly.spec, run.spec, assembly.notes())  # last, because a directory with a spec is a run


def environment(assembly: Assembly) -> dict[str, Any]:
    """What a result may depend on besides the spec: versions, platform and number of threads."""
    return {
        "components": assembly.packages,
        "packages": {name: version(name) for name in ("crvnn", "torch", "lightning-fabric", "safetensors")},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def save_checkpoint(run: RunDirectory, state: Mapping[str, Any], best: Mapping[str, Tensor] | None) -> None:
    """Save the training state as the last checkpoint; if it has the best weights, these and the best checkpoint too.

    The last checkpoint is written last: a run that is killed before then repeats the step and saves the best again.
    """
    if best is not None:
        checkpoint.save(run.weights, {"model": best})
        checkpoint.save(run.best, state)
    checkpoint.save(run.last, state)


def last_state(run: RunDirectory | None, assembly: Assembly) -> dict[str, Any]:
    """The state in the last checkpoint of a run; empty if it was stopped before its first one.

    If settings have changed, the new spec is written.
    """
    if run is None or not run.spec.exists():
        raise CrvnnError(run.missing(run.spec) if run else "resuming needs the directory of a run")
    lexicon = run.read_lexicon()
    if (lexicon.tokens, lexicon.classes) != (assembly.model.vocabulary.tokens, tuple(assembly.task.classes)):
        raise CrvnnError(
            f"{run.path}: the data has other tokens or classes than when this run was started; "
            "put the old data back, or start a new run"
        )
    found = next((path for path in (run.last, run.best) if path.exists()), None)
    if found is None and run.results.exists():  # it is finished: do not overwrite it
        raise CrvnnError(f"{run.missing(run.last)}; without it this run cannot be resumed")
    state = checkpoint.load(found) if found is not None else {}
    before, now = tomllib.loads(run.spec.read_text(encoding="utf-8")), spec_dict(assembly.spec)
    if before != now:
        check_ended_stages(before, now, state["position"].get("stage", 0) if state else 0)
        write_spec(assembly.spec, run.spec, assembly.notes())  # with what --set has changed
    return state
