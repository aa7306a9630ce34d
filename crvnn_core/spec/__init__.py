"""Specs: the complete description of a model, its task and its training, read from TOML and written to it."""

from crvnn_core.spec.resolve import read_spec, resolve
from crvnn_core.spec.schema import Lexicon, ModelSpec, PartSpec, RunSpec, Stage, TrainingSpec
from crvnn_core.spec.write import (
    flatten,
    is_whole,
    spec_dict,
    spec_text,
    stage_changes,
    stage_summary,
    was_changed,
    was_resolved,
    write_spec,
)

__all__ = [
    "Lexicon",
    "ModelSpec",
    "PartSpec",
    "RunSpec",
    "Stage",
    "TrainingSpec",
    "flatten",
    "is_whole",
    "read_spec",
    "resolve",
    "spec_dict",
    "spec_text",
    "stage_changes",
    "stage_summary",
    "was_changed",
    "was_resolved",
    "write_spec",
]
