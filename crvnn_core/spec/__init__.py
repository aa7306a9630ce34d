"""Specs: the complete description of a model, its task and its training, read from TOML and written to it."""

from crvnn_core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
