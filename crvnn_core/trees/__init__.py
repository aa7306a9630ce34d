"""Binary trees over tokens: extraction from a trace (which needs torch), formats, scoring."""

from crvnn_core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
