"""A binary tree over tokens. No recursion anywhere: trees can be as deep as sequences are long."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from crvnn_core.errors import InputError
from crvnn_core.trees.formats import reader, writer
from crvnn_core.views import make_frame

if TYPE_CHECKING:
    import pandas

#: A token, or the trees of two children.
Nested = str | tuple["Nested", "Nested"]

_JOIN = object()  # on the stack below two children that are to be joined


@frozen
class Node:
    """An inner node: ``tokens[start:split]`` joined with ``tokens[split:end]``."""

    start: int
    split: int
    end: int
    #: The recursion step, from 1, in which it was made; ``None`` if it joined at the very end only, or is not known.
    step: int | None = None
    #: The probability of being composed by then, over all steps so far; ``None`` if it is not known.
    chance: float | None = None
    #: The recursion step in which what its left child carried was lost, in a conflict; ``None`` if there was none.
    conflict: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        """The tokens it covers: from the first to behind the last."""
        return self.start, self.end


def _texts(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(tokens)


def _in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(nodes)


@frozen(repr=False)
class Tree:
    """A binary tree over all tokens: n - 1 inner nodes for n tokens."""

    #: From first to last.
    tokens: tuple[str, ...] = field(converter=_texts)
    #: Children before parents, in the order of composition.
    nodes: tuple[Node, ...] = field(converter=_in_order)

    def __attrs_post_init__(self) -> None:
        _check(self.tokens, self.nodes)

    @classmethod
    def of(cls, nested: Nested | Sequence[Any]) -> Tree:
        """The tree that pairs in pairs stand for: ``(("a", "b"), "c")``."""
        tokens: list[str] = []
        nodes: list[Node] = []
        starts: list[int] = []  # of what has been read and not joined yet
        waiting: list[Any] = [nested]
        while waiting:
            part = waiting.pop()
            if isinstance(part, str):
                starts.append(len(tokens))
                tokens.append(part)
            elif part is _JOIN:
                split, start = starts.pop(), starts[-1]
                nodes.append(Node(start, split, len(tokens)))
            elif isinstance(part, (tuple, list)) and len(part) == 2:
                waiting += [_JOIN, part[1], part[0]]
            else:
                raise InputError(f"a tree is a token or a pair of trees, not {_shortened(part)}")
        return cls(tokens, nodes)

    @classmethod
    def joining(
        cls,
        tokens: Sequence[str],
        positions: Iterable[int],
        steps: Sequence[int | None] | None = None,
        chances: Sequence[float | None] | None = None,
        conflicts: Sequence[int | None] | None = None,
    ) -> Tree:
        """The tree that arises when at these positions, one after another, a node joins the one to its right.

        :param positions: each of 0 ... n - 2 once; a node's position is that of its last token.
        :param steps: of each position, in the order of the tokens.
        :param chances: likewise.
        :param conflicts: likewise.
        """
        n = len(tokens)
        before, after = list(range(-1, n)), list(range(1, n + 1))  # who stands next to each position
        nodes = []
        for position in positions:
            if not 0 <= position < n - 1 or after[position] < 0:
                raise InputError(
                    f"position {position} cannot join its right neighbour: it has none, or has joined"
                )
            left, right = before[position], after[position]
            step = steps[position] if steps is not None else None
            chance = chances[position] if chances is not None else None
            conflict = conflicts[position] if conflicts is not None else None
            nodes.append(Node(left + 1, position + 1, right + 1, step, chance, conflict))
            before[right], after[position] = left, -1
            if left >= 0:
                after[left] = right
        return cls(tokens, nodes)

    @classmethod
    def read(cls, text: str, form: str) -> Tree:
        """The tree of a string in one of the ``READABLE`` formats of ``crvnn_core.trees``, such as ``brackets``."""
        return reader(form)(text)

    def to(self, form: str, *, unknown: Collection[int] = ()) -> str:
        """This tree in one of the ``FORMATS`` of ``crvnn_core.trees``, such as ``brackets`` or ``svg``.

        :param unknown: positions of tokens outside the model's vocabulary; json, svg, latex and terminal mark them.
        """
        return writer(form)(self, unknown)

    def same(self, other: Tree) -> bool:
        """Whether both have the same tokens and structure, however they came about."""
        return self.tokens == other.tokens and self.spans() == other.spans()

    def nested(self) -> Nested:
        """The tree as pairs in pairs."""
        parts: list[Nested] = list(self.tokens)  # by the first token of a node
        for node in self.nodes:
            parts[node.start] = (parts[node.start], parts[node.split])
        return parts[0]

    def spans(self) -> frozenset[tuple[int, int]]:
        """The (start, end) of every inner node."""
        return frozenset(node.span for node in self.nodes)

    def bracketing(self) -> Iterator[tuple[str, int, int]]:
        """Each token, with how many nodes begin with it and how many end with it."""
        opened, closed = [0] * len(self.tokens), [0] * len(self.tokens)
        for node in self.nodes:
            opened[node.start] += 1
            closed[node.end - 1] += 1
        return zip(self.tokens, opened, closed, strict=True)

    def children(self) -> list[tuple[int, int]]:
        """The left and right child of each node: the index of a node, or ``~position`` of a token."""
        at = [~position for position in range(len(self.tokens))]  # what begins at each token
        found = []
        for index, node in enumerate(self.nodes):
            found.append((at[node.start], at[node.split]))
            at[node.start] = index
        return found

    def heights(self) -> list[int]:
        """How many inner nodes lie on the longest way down from each node, itself included."""
        heights = [0] * len(self.tokens)  # by the first token
        found = []
        for node in self.nodes:
            heights[node.start] = 1 + max(heights[node.start], heights[node.split])
            found.append(heights[node.start])
        return found

    @property
    def depth(self) -> int:
        """How many inner nodes lie on the longest way from the root to a token."""
        return self.heights()[-1] if self.nodes else 0

    @property
    def conflicts(self) -> tuple[Node, ...]:
        """The nodes whose left child did not get into the sentence vector: docs/explanation/recursion.md says why."""
        return tuple(node for node in self.nodes if node.conflict is not None)

    def plain(self) -> dict[str, Any]:
        """Tokens and nodes as JSON has them."""
        from crvnn_core.trees.formats.json import plain

        return plain(self)

    def picture(self, unknown: Iterable[bool] = ()) -> str:
        """As SVG, in which tokens outside the vocabulary are marked.

        :param unknown: whether each token is one.
        """
        return self.to("svg", unknown={place for place, strange in enumerate(unknown) if strange})

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each inner node, children before parents."""
        rows = (
            {
                "start": node.start,
                "split": node.split,
                "end": node.end,
                "step": node.step,
                "probability": node.chance,
                "conflict": node.conflict,
                "text": " ".join(self.tokens[node.start : node.end]),
            }
            for node in self.nodes
        )
        return make_frame(rows, ("start", "split", "end", "step", "probability", "conflict", "text"))

    def __str__(self) -> str:
        return self.to("brackets")

    def _repr_svg_(self) -> str:
        return self.to("svg")

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"


def _check(tokens: tuple[str, ...], nodes: tuple[Node, ...]) -> None:
    """Every node joins two that stand side by side, until there is one."""
    if not tokens:
        raise InputError("a tree needs at least one token")
    if not all(isinstance(token, str) for token in tokens):
        raise InputError("the tokens of a tree must be strings")
    if len(nodes) != len(tokens) - 1:
        raise InputError(
            f"a binary tree over {len(tokens)} tokens has {len(tokens) - 1} inner nodes, not {len(nodes)}"
        )
    ends = list(range(1, len(tokens) + 1))  # of what begins at each token; 0 where nothing does any more
    for number, node in enumerate(nodes, 1):
        fits = 0 <= node.start < node.split < node.end <= len(tokens)
        if not fits or ends[node.start] != node.split or ends[node.split] != node.end:
            raise InputError(
                f"node {number} joins tokens {node.start} to {node.split} with tokens {node.split} to {node.end}, "
                "which do not stand side by side as nodes or tokens by then"
            )
        ends[node.start], ends[node.split] = node.end, 0


def _shortened(part: object) -> str:
    if isinstance(part, (tuple, list)):
        return f"a {type(part).__name__} of {len(part)}"  # what is inside may be very deep
    return repr(part)
