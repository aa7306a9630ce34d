r"""Trees for LaTeX's ``forest``: ``\begin{forest} ... [[{a}][{b}]] \end{forest}``."""

from __future__ import annotations

import re
from collections.abc import Collection

from crvnn_core.errors import InputError
from crvnn_core.trees.formats.reading import Builder
from crvnn_core.trees.formats.writing import token_of, visible
from crvnn_core.trees.tree import Tree

_HEAD = r"""% \usepackage[T1]{fontenc} \usepackage{forest}
\begin{forest}
  for tree={parent anchor=south, child anchor=north, l sep=6pt, s sep=6pt},
  where n children=0{tier=token, font=\ttfamily}{coordinate},
"""
_TAIL = "\n\\end{forest}\n"
_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"-{}",  # or two of them would become a dash
    ",": r",{}",  # likewise
    " ": r"\ ",
}
_MEANS = {command: character for character, command in _COMMANDS.items()}
_WRITTEN = re.compile("|".join(map(re.escape, sorted(_MEANS, key=len, reverse=True))))
_PIECE = re.compile(
    r"\s*(?:(?P<mark>[\[\]])|(?P<text>\{(?:[^{}\\]|\\.|\{\})*\})|(?P<other>[^\[\]{]+|\{))", re.DOTALL
)


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree with all tokens on one line; edges to unknown tokens are dashed."""
    leaves = [
        "[" * opens + f"[{{{_tex(token)}}}{', edge=dashed' * (place in unknown)}]" + "]" * closes
        for place, (token, opens, closes) in enumerate(tree.bracketing())
    ]
    return _HEAD + "  " + " ".join(leaves) + _TAIL


def _tex(token: str) -> str:
    return re.sub(r"[\\{}&%$#_~^<>|\"'`\-, ]", lambda found: _COMMANDS[found[0]], visible(token, spaces=True))


def read(text: str) -> Tree:
    """The tree of the first ``forest`` in a text, or of its brackets alone; tokens stand in braces."""
    begin, end = _extent(text)
    builder = Builder(text, unary=True)
    leaf = False  # whether the brackets that opened last hold a token
    for piece in _PIECE.finditer(text, begin, end):
        place, other = piece.end() - len(piece[0].lstrip()), (piece["other"] or "").strip()
        if piece["mark"] == "[":
            if leaf:
                raise builder.error(place, "a node with a token has no children")
            builder.open(place)
        elif piece["mark"] == "]":
            builder.close(place)
            leaf = False
        elif piece["text"]:
            if leaf:
                raise builder.error(place, "these brackets hold two tokens")
            builder.token(_token(piece["text"][1:-1]), place)
            leaf = True
        elif other and not (leaf and other.startswith(",")):  # what follows a comma is how it looks
            raise builder.error(place, f"expected brackets, or a token in braces, not {other[:40]!r}")
    return builder.finish()


def _extent(text: str) -> tuple[int, int]:
    """Where the brackets begin and end."""
    head = re.search(r"\\begin\{forest\}[^\[]*", text)
    if head is None:
        return 0, len(text)
    end = text.find(r"\end{forest}", head.end())
    if end < 0:
        raise InputError(r"\end{forest} is missing")
    return head.end(), end


def _token(written: str) -> str:
    return token_of(_WRITTEN.sub(lambda found: _MEANS[found[0]], written))
