"""Trees as nested JSON lists of tokens: ``[["a", "b"], "c"]``."""

from __future__ import annotations

from collections.abc import Collection

from crvnn_core.trees.formats.escapes import as_json
from crvnn_core.trees.tree import Tree


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """``[["a", "b"], "c"]``; a single token as a string. Not ``json.dumps``, which fails on deep lists."""
    return ", ".join(
        "[" * opens + as_json(token) + "]" * closes for token, opens, closes in tree.bracketing()
    )
