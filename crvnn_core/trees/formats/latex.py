r"""Trees for LaTeX's ``forest``: ``\begin{forest} ... [[{a}][{b}]] \end{forest}``."""

from __future__ import annotations

import re
from collections.abc import Collection

from crvnn_core.trees.formats.escapes import visible
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
    "-": r"-{}",  # no ligature
    ",": r",{}",  # no ligature
    " ": r"\ ",
}


def write(tree: Tree, unknown: Collection[int] = ()) -> str:
    """A tree with all tokens on one line; edges to unknown tokens are dashed."""
    leaves = [
        "[" * opens + f"[{{{_tex(token)}}}{', edge=dashed' * (place in unknown)}]" + "]" * closes
        for place, (token, opens, closes) in enumerate(tree.bracketing())
    ]
    return _HEAD + "  " + " ".join(leaves) + _TAIL


def _tex(token: str) -> str:
    return re.sub(r"[\\{}&%$#_~^<>|\"'`\-, ]", lambda found: _COMMANDS[found[0]], visible(token, spaces=True))
