"""Trees as nested lists in JSON: ``[["a", "b"], "c"]``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from crvnn_core.trees.formats.reading import Builder
from crvnn_core.trees.formats.writing import as_json
from crvnn_core.trees.tree import Tree

_PIECE = re.compile(r'\s*(?:(?P<mark>[\[\],])|(?P<text>"(?:[^"\\]|\\.)*")|(?P<other>\S))', re.DOTALL)


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree as lists in lists; a single token as a text."""
    return ", ".join(
        "[" * opens + as_json(token) + "]" * closes for token, opens, closes in tree.bracketing()
    )


def read(text: str) -> Tree:
    """The tree of such lists. JSON's own reader would not do: deep lists are too deep for it."""
    builder = Builder(text)
    comma, after = False, False  # whether one has just been, and whether one could come
    for piece in _PIECE.finditer(text):
        place, mark = piece.end() - len(piece[0].lstrip()), piece["mark"]
        if piece["other"]:
            raise builder.error(place, f"expected a list or a text in double quotes, not {piece['other']!r}")
        if mark == ",":
            if not after or not builder.depth:
                raise builder.error(place, "a comma stands between two trees, not here")
            comma, after = True, False
            continue
        if mark == "]":
            if comma:
                raise builder.error(place, "after a comma comes a tree, not ']'")
            builder.close(place)
        elif after and builder.depth:
            raise builder.error(place, "a comma is missing before this")
        elif mark:
            builder.open(place)
        else:
            builder.token(_text(builder, piece["text"], place), place)
        comma, after = False, mark != "["
    return builder.finish()


def _text(builder: Builder, written: str, place: int) -> str:
    try:
        text: str = json.loads(written)
    except ValueError as error:
        raise builder.error(place, f"this is not a text as JSON has it: {error}") from None
    return text
