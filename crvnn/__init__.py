"""Continuous recursive neural networks: encoders, trained models and their trees, from Python.

The names are imported when they are first used: ``import crvnn`` takes a moment and does not import torch.
``crvnn_core`` has what authors of plug-ins need besides.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crvnn.encoder import Encoder
    from crvnn.plugins import catalog, components
    from crvnn.specs import assemble, read_spec
    from crvnn.training import resume, train
    from crvnn_core.engine.trace import Trace
    from crvnn_core.errors import CrvnnError, InputError, SpecError, UnknownNameError
    from crvnn_core.inference.inspection import Inspection
    from crvnn_core.inference.predictions import Prediction, Predictions
    from crvnn_core.inference.published_weights import load_published_weights
    from crvnn_core.inference.trained import Trained, load
    from crvnn_core.inference.tree_scores import TreeScores, score_trees
    from crvnn_core.interfaces import Encoding
    from crvnn_core.runs.results import Result, Results, Score
    from crvnn_core.spec import RunSpec
    from crvnn_core.trees import Tree

    __version__: str

_MODULES = {
    "crvnn.plugins": ("catalog", "components"),
    "crvnn.encoder": ("Encoder",),
    "crvnn.specs": ("assemble", "read_spec"),
    "crvnn.training": ("resume", "train"),
    "crvnn_core.engine.trace": ("Trace",),
    "crvnn_core.errors": ("CrvnnError", "InputError", "SpecError", "UnknownNameError"),
    "crvnn_core.inference.inspection": ("Inspection",),
    "crvnn_core.inference.predictions": ("Prediction", "Predictions"),
    "crvnn_core.inference.published_weights": ("load_published_weights",),
    "crvnn_core.inference.trained": ("Trained", "load"),
    "crvnn_core.interfaces": ("Encoding",),
    "crvnn_core.spec": ("RunSpec",),
    "crvnn_core.runs.results": ("Result", "Results", "Score"),
    "crvnn_core.trees": ("Tree",),
    "crvnn_core.inference.tree_scores": ("TreeScores", "score_trees"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "CrvnnError",
    "Encoder",
    "Encoding",
    "InputError",
    "Inspection",
    "Prediction",
    "Predictions",
    "Result",
    "Results",
    "RunSpec",
    "Score",
    "SpecError",
    "Trace",
    "Trained",
    "Tree",
    "TreeScores",
    "UnknownNameError",
    "assemble",
    "catalog",
    "components",
    "load",
    "load_published_weights",
    "read_spec",
    "resume",
    "score_trees",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("crvnn")
    if name == "sklearn":  # an extra, which needs scikit-learn
        return importlib.import_module("crvnn.sklearn")
    if name not in _HOME:
        raise AttributeError(f"module 'crvnn' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "sklearn"])
