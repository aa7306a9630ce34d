"""The recursion engine of crvnn, its interfaces, and the host that puts variants together.

Names that need torch are imported when they are first used, so that the command line starts quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from crvnn_core.annotations import FilePath, Range, check_ranges
from crvnn_core.errors import (
    ContractError,
    CrvnnError,
    CrvnnWarning,
    InputError,
    PluginError,
    SpecError,
    UnknownNameError,
)
from crvnn_core.host.catalog import Catalog, read_catalog
from crvnn_core.host.component import Component, LazyCommand, NamedSpec, Preset, RunSource, TrainedModel
from crvnn_core.host.hooks import hookimpl
from crvnn_core.host.manager import create_plugin_manager
from crvnn_core.host.slots import SLOTS

if TYPE_CHECKING:
    from crvnn_core.engine.checks import checked_lengths
    from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood
    from crvnn_core.engine.recursion import Recursion
    from crvnn_core.engine.trace import Trace
    from crvnn_core.inference.predictions import Prediction
    from crvnn_core.inference.published_weights import load_published_weights
    from crvnn_core.inference.trained import Trained, load
    from crvnn_core.inference.tree_scores import TreeScores, score_trees
    from crvnn_core.interfaces import (
        Cell,
        Decision,
        Embedding,
        Encoder,
        Encoding,
        Example,
        Halting,
        InputRow,
        Neighbourhood,
        Objective,
        Observer,
        Retriever,
        Scheduled,
        Scorer,
        StatefulHalting,
        Task,
        set_progress,
    )
    from crvnn_core.model.batch import Batch, Tokens
    from crvnn_core.model.model import Head, Model
    from crvnn_core.runs.results import Result, Score
    from crvnn_core.spec import RunSpec, read_spec
    from crvnn_core.spec.assembly import Assembly, assemble
    from crvnn_core.training.data import batches
    from crvnn_core.training.run import Outcome
    from crvnn_core.training.seeds import RunOutcomes, resume_training, train_seeds
    from crvnn_core.training.trainer import train
    from crvnn_core.trees import Tree

_LAZY = {
    "spec.assembly": ("Assembly", "assemble"),
    "model.batch": ("Batch", "Tokens"),
    "training.data": ("batches",),
    "engine.recursion": ("Recursion",),
    "runs.results": ("Result", "Score"),
    "interfaces": (
        "Cell",
        "Decision",
        "Embedding",
        "Encoder",
        "Encoding",
        "Example",
        "Halting",
        "InputRow",
        "Neighbourhood",
        "Objective",
        "Observer",
        "Retriever",
        "Scheduled",
        "Scorer",
        "StatefulHalting",
        "Task",
        "set_progress",
    ),
    "model.model": ("Head", "Model"),
    "engine.neighbourhoods": ("MatrixNeighbourhood",),
    "inference.published_weights": ("load_published_weights",),
    "spec": ("RunSpec", "read_spec"),
    "engine.checks": ("checked_lengths",),
    "engine.trace": ("Trace",),
    "inference.predictions": ("Prediction",),
    "inference.trained": ("Trained", "load"),
    "training.run": ("Outcome",),
    "training.seeds": ("RunOutcomes", "resume_training", "train_seeds"),
    "training.trainer": ("train",),
    "trees": ("Tree",),
    "inference.tree_scores": ("TreeScores", "score_trees"),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "SLOTS",
    "Assembly",
    "Batch",
    "Catalog",
    "Cell",
    "Component",
    "ContractError",
    "CrvnnError",
    "CrvnnWarning",
    "Decision",
    "Embedding",
    "Encoder",
    "Encoding",
    "Example",
    "FilePath",
    "Halting",
    "Head",
    "InputError",
    "InputRow",
    "LazyCommand",
    "MatrixNeighbourhood",
    "Model",
    "NamedSpec",
    "Neighbourhood",
    "Objective",
    "Observer",
    "Outcome",
    "PluginError",
    "Prediction",
    "Preset",
    "Range",
    "Recursion",
    "Result",
    "Retriever",
    "RunOutcomes",
    "RunSource",
    "RunSpec",
    "Scheduled",
    "Score",
    "Scorer",
    "SpecError",
    "StatefulHalting",
    "Task",
    "Tokens",
    "Trace",
    "Trained",
    "TrainedModel",
    "Tree",
    "TreeScores",
    "UnknownNameError",
    "assemble",
    "batches",
    "check_ranges",
    "checked_lengths",
    "create_plugin_manager",
    "hookimpl",
    "load",
    "load_published_weights",
    "read_catalog",
    "read_spec",
    "resume_training",
    "score_trees",
    "set_progress",
    "train",
    "train_seeds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'crvnn_core' has no attribute '{name}'")
    return getattr(importlib.import_module(f"crvnn_core.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
