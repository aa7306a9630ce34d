"""Conflicts: two neighbours that exist are composed in the same step, and what the left one carried is lost.

The left one joins a position that itself leaves in that step with what it held before: docs/explanation/recursion.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crvnn_core.trees.formats.escapes import visible
from crvnn_core.trees.tree import Tree

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Trace

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


def conflicts_told(tree: Tree | None) -> str:
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
