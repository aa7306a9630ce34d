"""Specs: the complete description of a model, its task and its training, read from TOML and written to it."""

from crvnn_core.spec.resolve import read_spec, resolve
from crvnn_core.spec.schema import Lexicon, ModelSpec, PartSpec, RunSpec, TrainingSpec
from crvnn_core.spec.write import is_whole, spec_dict, spec_text, was_resolved, write_spec

__all__ = [
    "Lexicon",
    "ModelSpec",
    "PartSpec",
    "RunSpec",
    "TrainingSpec",
    "is_whole",
    "read_spec",
    "resolve",
    "spec_dict",
    "spec_text",
    "was_resolved",
    "write_spec",
]
