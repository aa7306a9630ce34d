"""Binary trees over tokens: extraction from a trace (which needs torch), formats, scoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crvnn_core.trees.formats import FORMATS, READABLE
from crvnn_core.trees.tree import Nested, Node, Tree

if TYPE_CHECKING:
    from crvnn_core.trees.extraction import tree_of, trees_of

__all__ = ["FORMATS", "READABLE", "Nested", "Node", "Tree", "tree_of", "trees_of"]


def __getattr__(name: str) -> Any:
    if name in ("tree_of", "trees_of"):
        from crvnn_core.trees import extraction

        return getattr(extraction, name)
    raise AttributeError(f"module 'crvnn_core.trees' has no attribute '{name}'")
