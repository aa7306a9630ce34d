"""Specs: the complete description of a model, its task and its training, read from TOML and written to it.

``read_spec`` is imported when it is first used: records of runs are read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crvnn_core.spec.schema import ModelSpec, PartSpec, RunSpec, Stage, TrainingSpec
from crvnn_core.spec.write import spec_dict, spec_text, stage_changes, stage_summary, write_spec

if TYPE_CHECKING:
    from crvnn_core.spec.resolve import read_spec

__all__ = [
    "ModelSpec",
    "PartSpec",
    "RunSpec",
    "Stage",
    "TrainingSpec",
    "read_spec",
    "spec_dict",
    "spec_text",
    "stage_changes",
    "stage_summary",
    "write_spec",
]


def __getattr__(name: str) -> Any:
    if name != "read_spec":
        raise AttributeError(f"module 'crvnn_core.spec' has no attribute '{name}'")
    from crvnn_core.spec.resolve import read_spec

    return read_spec
