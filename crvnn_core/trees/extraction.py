"""The tree that a recursion amounts to, as in section 5.3 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crvnn_core.errors import InputError
from crvnn_core.trees.tree import Tree

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Trace
    from crvnn_core.interfaces import Encoding


def tree_of(trace: Trace, row: int, tokens: Sequence[str]) -> Tree:
    """The tree of one sequence: a position joins its right neighbour when it is more likely composed than not.

    A position that never is joins last. Positions that join in the same step do so from left to right.
    """
    if len(tokens) != (length := int(trace.mask[row].sum())):
        raise InputError(f"sequence {row} of the trace has {length} tokens, not {len(tokens)}")
    inner = len(tokens) - 1  # the last token has no right neighbour
    gone = 1 - trace.exists[1:, row, :inner]  # [K, n - 1] probability of having been composed by each step
    first = _first_reached(gone, 0.5)
    chances = _at(gone, first)
    last = len(gone)
    order = sorted(range(inner), key=lambda position: (first[position], position))
    steps = [step + 1 if step < last else None for step in first]
    return Tree.joining(tokens, order, steps, chances)


def trees_of(encoding: Encoding, sequences: Sequence[Sequence[str]]) -> list[Tree | None]:
    """The tree of each sequence of a batch; ``None`` from an encoder that has neither trace nor structure."""
    if encoding.trace is not None:
        return [tree_of(encoding.trace, row, tokens) for row, tokens in enumerate(sequences)]
    if encoding.joins is not None:
        return [Tree.joining(tokens, joins) for tokens, joins in zip(sequences, encoding.joins, strict=True)]
    return [None] * len(sequences)


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
