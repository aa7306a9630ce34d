"""Slow versions, written from the definitions with plain loops. Nothing here is clever, and that is the point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood


def nearest_left(exists: Sequence[int], i: int) -> int | None:
    """Definition 3: the closest j < i with e_j = 1."""
    return next((j for j in range(i - 1, -1, -1) if exists[j] == 1), None)


def nearest_right(exists: Sequence[int], i: int) -> int | None:
    """Definition 3: the closest j > i with e_j = 1."""
    return next((j for j in range(i + 1, len(exists)) if exists[j] == 1), None)


def adhoc_row(exists: Sequence[float], i: int) -> list[float]:
    """p_ij of Eq. 5 for one i, by walking to the right."""
    row, found = [0.0] * len(exists), 0.0
    for j in range(i + 1, len(exists)):
        row[j] = exists[j] if found + exists[j] <= 1 else max(0.0, 1 - found)
        found += exists[j]
    return row


def product_row(exists: Sequence[float], i: int) -> list[float]:
    """p_ij of Eq. 6 for one i, by walking to the right."""
    row, none_yet = [0.0] * len(exists), 1.0
    for j in range(i + 1, len(exists)):
        row[j] = exists[j] * none_yet
        none_yet *= 1 - exists[j]
    return row


Row = Callable[[Sequence[float], int], list[float]]


def matrices(exists: Tensor, row: Row = adhoc_row) -> MatrixNeighbourhood:
    """The neighbourhood of a batch [B, n] from one of the row functions."""
    lefts, rights = [], []
    for sequence in exists.tolist():
        n = len(sequence)
        backwards = sequence[::-1]
        rights.append([row(sequence, i) for i in range(n)])
        lefts.append([row(backwards, n - 1 - i)[::-1] for i in range(n)])
    return MatrixNeighbourhood(
        torch.tensor(lefts, dtype=torch.float64, device=exists.device),
        torch.tensor(rights, dtype=torch.float64, device=exists.device),
    )


def compose_along(order: Sequence[Sequence[int]], leaves: Sequence[str]) -> str:
    """The bracketing that comes of composing, step by step, the given positions with their right neighbours."""
    nodes, exists = list(leaves), [1] * len(leaves)
    for chosen in order:
        before, there = list(nodes), list(exists)
        for j in chosen:
            i = nearest_right(there, j)
            assert i is not None, f"position {j} has nothing to its right"
            nodes[i] = f"({before[j]} {before[i]})"
            exists[j] = 0
    return nodes[-1]
