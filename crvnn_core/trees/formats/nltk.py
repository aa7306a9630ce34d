"""Trees as treebanks have them and NLTK reads them: ``(X (X (X a) (X b)) (X c))``."""

from __future__ import annotations

import re
from collections.abc import Collection

from crvnn_core.trees.formats.brackets import leaf, leaf_of
from crvnn_core.trees.formats.builder import Builder
from crvnn_core.trees.tree import Tree

_PIECE = re.compile(r"[()]|[^\s()]+")


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree with the label X at every node, tokens included: ``nltk.Tree.fromstring`` and EVALB read it."""
    return " ".join(
        "(X " * opens + f"(X {leaf(token)})" + ")" * closes for token, opens, closes in tree.bracketing()
    )


def read(text: str) -> Tree:
    """A tree with any labels, which are left out; tokens may stand with a label of their own or without."""
    builder = Builder(text, unary=True)
    labelled = True  # whether the brackets that opened last have had their label
    for piece in _PIECE.finditer(text):
        place = piece.start()
        if piece[0] == "(":
            builder.open(place)
            labelled = False
        elif piece[0] == ")":
            builder.close(place)
            labelled = True
        elif not labelled:
            labelled = True
        elif not builder.depth:
            raise builder.error(place, f"a tree begins with '(', not with {piece[0][:40]!r}")
        else:
            builder.token(leaf_of(piece[0]), place)
    return builder.finish()
