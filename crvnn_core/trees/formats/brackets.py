r"""Trees as brackets: ``((a b) c)``.

A parenthesis in a token is written as treebanks do, ``-LRB-`` or ``-RRB-``; other characters that would be taken for
something else begin with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from crvnn_core.trees.formats.builder import Builder
from crvnn_core.trees.formats.escapes import token_of, visible
from crvnn_core.trees.tree import Tree

_TREEBANK = {"(": "-LRB-", ")": "-RRB-"}
_MEANS = {written: character for character, written in _TREEBANK.items()}
_PIECE = re.compile(r"[()]|[^\s()]+")


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree as text: ``((a b) c)``."""
    return " ".join("(" * opens + leaf(token) + ")" * closes for token, opens, closes in tree.bracketing())


def read(text: str) -> Tree:
    """The tree of such a text."""
    builder = Builder(text)
    for piece in _PIECE.finditer(text):
        if piece[0] == "(":
            builder.open(piece.start())
        elif piece[0] == ")":
            builder.close(piece.start())
        else:
            builder.token(leaf_of(piece[0]), piece.start())
    return builder.finish()


def leaf(token: str) -> str:
    """A token without spaces or parentheses, nor a backslash before the one that follows: NLTK would join them."""
    # A hyphen that could be taken for the beginning of -LRB- gets a backslash, after the other ones got theirs.
    guarded = re.sub(r"-(?=[LR]RB)", r"\\-", visible(token))
    guarded = re.sub(r"\\\\$", r"\\u{5c}", guarded)
    return re.sub(r"[()]", lambda found: _TREEBANK[found[0]], guarded)


def leaf_of(text: str) -> str:
    """The token that ``leaf`` has written."""
    pieces = re.split(r"(\\\\|\\-|-[LR]RB-)", text)  # with what matters here at every second place
    for place in range(1, len(pieces), 2):
        if pieces[place] != "\\\\":
            pieces[place] = _MEANS.get(pieces[place], "-")
    return token_of("".join(pieces))
