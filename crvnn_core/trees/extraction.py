"""The tree that a recursion amounts to, as in section 5.3 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from crvnn_core.errors import InputError
from crvnn_core.trees.formats.escapes import visible
from crvnn_core.trees.tree import Tree

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Trace
    from crvnn_core.interfaces import Encoding


#: What must reach one half for a position to join: ``cumulative``, the sum of c over the steps so far, as in the paper
#: and its published code; ``existence``, the probability 1 - e of having been composed by then.
Extraction = Literal["cumulative", "existence"]
EXTRACTIONS: tuple[Extraction, ...] = get_args(Extraction)


def tree_of(trace: Trace, row: int, tokens: Sequence[str], extraction: Extraction = "cumulative") -> Tree:
    """The tree of one sequence: a position joins its right neighbour when it is more likely composed than not.

    A position that never is joins last. Positions that join in the same step do so from left to right.

    :param extraction: what counts as the probability of being composed.
    """
    if len(tokens) != (length := int(trace.mask[row].sum())):
        raise InputError(f"sequence {row} of the trace has {length} tokens, not {len(tokens)}")
    composed = _composed(trace, row, length, extraction)
    first = _first_reached(composed, 0.5)
    steps = [step + 1 if step < len(composed) else None for step in first]
    conflicts = conflict_steps(trace, row, length)
    return Tree.joining(tokens, _earliest_first(first), steps, _at(composed, first), conflicts)


def trees_of(
    encoding: Encoding, sequences: Sequence[Sequence[str]], extraction: Extraction = "cumulative"
) -> list[Tree | None]:
    """The tree of each sequence of a batch; ``None`` from an encoder that has neither trace nor structure."""
    if encoding.trace is not None:
        return [tree_of(encoding.trace, row, tokens, extraction) for row, tokens in enumerate(sequences)]
    if encoding.joins is not None:
        return [Tree.joining(tokens, joins) for tokens, joins in zip(sequences, encoding.joins, strict=True)]
    return [None] * len(sequences)


def joins_of(encoding: Encoding, lengths: Sequence[int]) -> Sequence[Sequence[int]] | None:
    """The joins of each sequence as in ``Encoding.joins``, of a trace those of ``tree_of``; ``None`` without a tree.

    :param lengths: the number of tokens of each sequence.
    """
    trace = encoding.trace
    if trace is None:
        return encoding.joins
    return [
        _earliest_first(_first_reached(_composed(trace, row, length, "cumulative"), 0.5))
        for row, length in enumerate(lengths)
    ]


def _composed(trace: Trace, row: int, length: int, extraction: Extraction) -> Tensor:
    """The probability [K, n - 1] of being composed by each step; the last token has no right neighbour."""
    if extraction not in EXTRACTIONS:
        raise InputError(f"extraction must be {' or '.join(map(repr, EXTRACTIONS))}, not {extraction!r}")
    if extraction == "existence":
        return 1 - trace.exists[1:, row, : length - 1]
    return trace.compose[:, row, : length - 1].cumsum(0)


def _earliest_first(steps: Sequence[int]) -> list[int]:
    """Positions by the step in which they join; those that join in the same step from left to right."""
    return sorted(range(len(steps)), key=lambda position: (steps[position], position))


def _first_reached(values: Tensor, threshold: float) -> list[int]:
    """For each column of [K, m] the first row that reaches the threshold; K where none does."""
    steps = torch.arange(len(values), device=values.device).unsqueeze(1)
    reached = torch.where(values >= threshold, steps, len(values))
    first: list[int] = (reached.amin(0) if len(values) else reached.new_zeros(values.shape[1])).tolist()
    return first


def _at(values: Tensor, rows: Sequence[int]) -> list[float]:
    """One row of each column of [K, m]; the last where there are no more rows."""
    if not len(values):
        return [0.0] * len(rows)
    picked = torch.tensor(rows, device=values.device).clamp(max=len(values) - 1).unsqueeze(0)
    found: list[float] = values.gather(0, picked).squeeze(0).clamp(0, 1).tolist()
    return found


_NAMED = 3  # conflicts that a sentence names


def conflict_steps(trace: Trace, row: int, length: int) -> list[int | None]:
    """The step, from 1, in which what each of the positions 0 ... n - 2 carried was lost; ``None`` if it was not.

    That is a step in which e_i > 1/2 and c_i c_j > 1/2, where j is the next position to the right with e_j > 1/2.
    """
    e, c = trace.exists[:-1, row, :length], trace.compose[:, row, :length]  # [K, n]
    if not len(c):
        return [None] * (length - 1)
    there = e > 0.5
    place = torch.arange(length, device=c.device).where(there, length - 1)  # the last token always exists
    following = place.flip(1).cummin(1).values.flip(1)[:, 1:]  # the next position that exists, [K, n - 1]
    lost = there[:, :-1] & (c[:, :-1] * c.gather(1, following) > 0.5)
    steps = torch.arange(1, len(c) + 1, device=c.device).unsqueeze(1)
    return [step or None for step in (lost * steps).amax(0).tolist()]


def describe_conflicts(tree: Tree | None) -> str:
    """The conflicts of a tree in a sentence or two; empty if there are none."""
    if tree is None or not tree.conflicts:
        return ""
    found = [
        f"'{visible(tree.tokens[node.split - 1])}' (token {node.split}, step {node.conflict})"
        for node in tree.conflicts
    ]
    named = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
    lost = {place for node in tree.conflicts for place in range(node.start, node.split)}
    return (
        f"{len(found)} conflict{'s' * (len(found) > 1)}: {named}. In a conflict a node joins its right neighbour in "
        "the very step in which that one is composed, and what it carried is lost: here "
        f"{len(lost)} of {len(tree.tokens)} tokens."
    )
