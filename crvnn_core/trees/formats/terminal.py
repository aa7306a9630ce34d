"""Trees drawn with box characters, one token a line: as wide as the tree is deep, and as long as the sequence.

::

      ┌── the
    ┌─┴── cat
    ┴──── sleeps

A node stands on the line of its last token, as a parent takes the position of its right child in the recursion. One
whose left child was lost in a conflict is a cross.
"""

from __future__ import annotations

from collections.abc import Collection

from crvnn_core.trees.formats.escapes import visible
from crvnn_core.trees.tree import Tree

_NONE, _PAST, _BEGIN, _JOIN, _LOST, _LINE, _UNKNOWN = "  ", "│ ", "┌─", "┴─", "\u2573─", "─", "╌"


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree as lines of text; the edge to an unknown token is dashed."""
    ways = _depths(tree)
    joins: list[list[str]] = [[] for _ in tree.tokens]  # the nodes that end at each token, from the root down
    for node in reversed(tree.nodes):
        joins[node.end - 1].append(_JOIN if node.conflict is None else _LOST)
    deepest = max(ways)
    columns = [_NONE] * deepest
    rows = []
    for place, token in enumerate(tree.tokens):
        way = ways[place]
        top = way - len(joins[place])  # the highest node that ends here is so far from the root
        begun = top - 1  # the node that it begins as a left child; none for the last token
        before = "".join(columns[: max(begun, 0)])
        reach = 2 * (deepest - way)
        line = _LINE * reach + (_UNKNOWN if place in unknown else _LINE)
        drawn = before + (_BEGIN if begun >= 0 else "") + "".join(joins[place]) + line
        rows.append(f"{drawn} {visible(token, spaces=True)}")
        if begun >= 0:
            columns[begun:] = [_PAST] + [_NONE] * (deepest - begun - 1)
    return "\n".join(rows)


def _depths(tree: Tree) -> list[int]:
    """How many nodes are above each token."""
    change = [0] * (len(tree.tokens) + 1)
    for node in tree.nodes:
        change[node.start] += 1
        change[node.end] -= 1
    depths, depth = [], 0
    for one in change[:-1]:
        depth += one
        depths.append(depth)
    return depths
