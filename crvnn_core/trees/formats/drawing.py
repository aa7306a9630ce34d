"""Trees drawn with lines, one token a line: as wide as the tree is deep, and as long as the sequence.

::

      ┌── the
    ┌─┴── cat
    ┴──── sleeps

As in the recursion, a node stands where its last token stands: what is to the left comes down and joins it there.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from crvnn_core.errors import InputError
from crvnn_core.trees.formats.writing import token_of, visible
from crvnn_core.trees.tree import Node, Tree

_NONE, _PAST, _BEGIN, _JOIN, _LINE, _UNKNOWN = "  ", "│ ", "┌─", "┴─", "─", "╌"
_ROW = re.compile(r"(?P<before>(?:  |│ )*)(?P<begin>┌─)?(?P<joins>(?:┴─)*)[─╌]+ (?P<token>.*)", re.DOTALL)


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree as lines of text; the line to an unknown token is dashed."""
    ways = _depths(tree)
    joins = [0] * len(tree.tokens)  # how many nodes end at each token
    for node in tree.nodes:
        joins[node.end - 1] += 1
    deepest = max(ways)
    columns = [_NONE] * deepest
    rows = []
    for place, token in enumerate(tree.tokens):
        way = ways[place]
        top = way - joins[place]  # the highest node that ends here is so far from the root
        begun = top - 1  # the node that it begins as a left child; none for the last token
        before = "".join(columns[: max(begun, 0)])
        reach = 2 * (deepest - way)
        line = _LINE * reach + (_UNKNOWN if place in unknown else _LINE)
        drawn = before + (_BEGIN if begun >= 0 else "") + _JOIN * joins[place] + line
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


def read(text: str) -> Tree:
    """The tree that is drawn."""
    rows = [row for row in text.split("\n") if row.strip()]
    if not rows:
        raise InputError("there is no tree: the text is empty")
    tokens: list[str] = []
    nodes: list[Node] = []
    starts: list[int] = []  # where the trees begin that nothing has joined yet
    for number, row in enumerate(rows, 1):
        found = _ROW.fullmatch(row)
        if found is None:
            raise InputError(f"line {number}: this is no line of a drawn tree: {row[:60]!r}")
        starts.append(len(tokens))
        tokens.append(token_of(found["token"]))
        joins = len(found["joins"]) // 2
        if joins >= len(starts):
            raise InputError(f"line {number}: {joins} nodes end here, but fewer have begun")
        for _ in range(joins):
            split = starts.pop()
            nodes.append(Node(starts[-1], split, len(tokens)))
    if len(starts) > 1:
        raise InputError(f"line {len(rows)}: the tree is not whole; {len(starts)} parts are never joined")
    tree = Tree(tokens, nodes)
    _check_lines(tree, rows)
    return tree


def _check_lines(tree: Tree, rows: list[str]) -> None:
    """An error unless every line is where it belongs; dashes do not matter."""
    for number, (drawn, right) in enumerate(zip(rows, write(tree).split("\n"), strict=True), 1):
        if _joints(drawn) != _joints(right):
            raise InputError(f"line {number}: the lines do not meet those above; expected {right[:60]!r}")


def _joints(row: str) -> str:
    found = _ROW.fullmatch(row)
    return row[: found.end("joins")] if found else row
