"""Putting a tree together from the brackets and tokens of a text, with errors that say where and what."""

from __future__ import annotations

from crvnn_core.errors import InputError
from crvnn_core.trees.tree import Node, Tree


class Builder:
    """Builds a tree from brackets and tokens, given from left to right.

    :param text: what is read, for messages.
    :param unary: whether brackets around a single tree are allowed and mean nothing.
    """

    def __init__(self, text: str, *, unary: bool = False) -> None:
        self._text, self._unary = text, unary
        self._tokens: list[str] = []
        self._nodes: list[Node] = []
        self._open: list[tuple[int, list[int]]] = []  # where brackets open, and where the trees in them begin
        self._done = False

    @property
    def depth(self) -> int:
        """How many brackets are open."""
        return len(self._open)

    def open(self, place: int) -> None:
        """An opening bracket."""
        self._expect_more(place)
        self._open.append((place, []))

    def token(self, token: str, place: int) -> None:
        """A leaf."""
        self._expect_more(place)
        self._tokens.append(token)
        self._add(len(self._tokens) - 1)

    def close(self, place: int) -> None:
        """A closing bracket."""
        if not self._open:
            raise self.error(place, "this bracket closes nothing")
        _, starts = self._open.pop()
        if len(starts) == 2:
            self._nodes.append(Node(starts[0], starts[1], len(self._tokens)))
        elif len(starts) != 1 or not self._unary:
            held = f"{len(starts)} trees" if len(starts) > 1 else "one tree" if starts else "nothing"
            raise self.error(place, f"the brackets that close here hold {held}; a node has two children")
        self._add(starts[0])

    def finish(self) -> Tree:
        """The whole tree."""
        if self._open:
            place, _ = self._open[-1]
            raise self.error(place, f"this bracket is never closed; {len(self._open)} are open at the end")
        if not self._done:
            raise InputError("there is no tree: the text is empty")
        return Tree(self._tokens, self._nodes)

    def error(self, place: int, what: str) -> InputError:
        """A problem at a place of the text."""
        return InputError(f"{where(self._text, place)}: {what}")

    def _expect_more(self, place: int) -> None:
        if self._done:
            raise self.error(place, "the tree has ended before this; brackets around the whole are missing")

    def _add(self, start: int) -> None:
        if self._open:
            self._open[-1][1].append(start)
        else:
            self._done = True


def where(text: str, place: int) -> str:
    """A place of a text in words."""
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    return f"line {line}, column {column}" if "\n" in text.strip("\n") else f"column {column}"
