"""Trees as brackets: ``((a b) c)``."""

from __future__ import annotations

from collections.abc import Collection

from crvnn_core.trees.tree import Tree

#: Tokens that would be taken for brackets of the tree, as treebanks write them.
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree as text: ``((a b) c)``; tokens that are parentheses as ``-LRB-`` and ``-RRB-``."""
    opened, closed = [0] * len(tree.tokens), [0] * len(tree.tokens)
    for node in tree.nodes:
        opened[node.start] += 1
        closed[node.end - 1] += 1
    return " ".join(
        "(" * opens + _ESCAPES.get(token, token) + ")" * closes
        for token, opens, closes in zip(tree.tokens, opened, closed, strict=True)
    )


brackets = write
