"""Composition along the task's own trees: Tree-LSTM, Tree-RNN and Tree-Cell, by the cell.

The cell runs once a level, on all nodes of that level in the batch. The nodes that wait for their parents are rows of
one matrix. A level prepends the leaves that it needs, moves the children of its nodes to the front, composes them, and
appends the parents to the rows that are left. So every leaf is copied once, and every node once for each level that it
waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor, split_with_sizes

from crvnn_core import Cell, Encoder, Encoding, InputError, checked_lengths


class GoldTree(Encoder):
    """Composes along the task's gold trees, level by level over the batch.

    With the cell ``lstm`` it is the binary Tree-LSTM (Tai et al., 2015), with ``rnn`` the Tree-RNN (Socher et al.,
    2011), with ``gated`` the Tree-Cell that the paper compares with. Tokens that a task names as structure, such as the
    parentheses of ``logic``, are left out.
    """

    needs_trees = True

    def __init__(self, width: int, cell: Cell) -> None:
        super().__init__(width)
        self.cell = cell

    def step_limit(self, length: int) -> int:
        return length - 1

    def forward(
        self, inputs: Tensor, mask: Tensor, *, trace: bool = False, levels: Tensor | None = None
    ) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        if levels is None or levels.shape != mask.shape:
            raise InputError(
                f"this encoder composes along given trees: levels {list(mask.shape)}, as crvnn_core.trees.gold."
                f"levels_of makes them; got {'none' if levels is None else list(levels.shape)}"
            )
        leaves = self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(-1), 0)).to(inputs.dtype)
        roots = schedule_of(levels, lengths).compose(self.cell, leaves)
        return Encoding(
            self.cell.readout(roots),
            roots.new_zeros(len(roots)),
            levels.amax(1),
            joins=_joins(levels, lengths) if trace else None,
        )


def _joins(levels: Tensor, lengths: list[int]) -> list[list[int]]:
    """The positions of each sequence that join their right neighbours, lower levels first."""
    order = levels.masked_fill(levels == 0, levels.shape[1]).argsort(dim=1, stable=True).tolist()
    return [positions[: length - 1] for positions, length in zip(order, lengths, strict=True)]


@frozen(eq=False)
class Level:
    """One level of a schedule: which rows to compose."""

    leaves: int  # that are prepended
    nodes: int  # that are composed
    order: Tensor  # of the rows, afterwards: left children, right children, and those that still wait


@frozen(eq=False)
class Schedule:
    """In which order the leaves of a batch, its B x n positions, are composed to the roots of its trees."""

    leaves: Tensor  # positions of the leaves, in the order in which levels need them
    levels: tuple[Level, ...]
    rest: int  # leaves that no level needs: sequences of one token
    roots: Tensor  # [B] rows at the end

    def compose(self, cell: Cell, leaves: Tensor) -> Tensor:
        """The states of the roots [B, s] from those of the leaves [B, n, s]."""
        sizes = [*(level.leaves for level in self.levels), self.rest]
        chunks = split_with_sizes(leaves.flatten(0, 1)[self.leaves], sizes)
        rows = leaves.new_empty(0, leaves.shape[-1])
        for level, chunk in zip(self.levels, chunks, strict=False):
            rows = torch.cat([chunk, rows])[level.order]
            left, right, waiting = split_with_sizes(
                rows, [level.nodes, level.nodes, len(rows) - 2 * level.nodes]
            )
            rows = torch.cat([waiting, cell(left, right).to(rows.dtype)])
        return torch.cat([chunks[-1], rows])[self.roots]


def schedule_of(levels: Tensor, lengths: Sequence[int]) -> Schedule:
    """The schedule of a batch on the device of its ``levels`` [B, n], which are read from there once."""
    device, (count, n) = levels.device, levels.shape
    flat = _checked(levels, lengths).flatten()
    last = torch.arange(count) * n + torch.tensor(lengths) - 1
    joins = flat.nonzero().squeeze(1)
    joins = joins[flat[joins].argsort(stable=True)]
    sizes = flat[joins].bincount()[1:].tolist() if len(joins) else []
    # Of each position that is the end of a node: the ends of the nodes to both sides, and the node's row.
    left, right = torch.arange(-1, count * n), torch.arange(1, count * n + 2)
    row = torch.full((count * n,), -1)  # of a leaf
    waiting = torch.empty(0, dtype=torch.long)  # the ends of the nodes that are rows
    leaves: list[Tensor] = []
    orders: list[Tensor] = []
    for ends in split_with_sizes(joins, sizes):
        rights = right[ends]
        if (flat[rights] == flat[ends]).any():
            raise InputError("two nodes of a tree that depend on each other have the same level")
        children = torch.cat([ends, rights])
        rows = row[children]
        fresh = rows < 0
        needed = int(fresh.sum())
        place = torch.where(fresh, fresh.cumsum(0) - 1, rows + needed)
        still = torch.ones(needed + len(waiting), dtype=torch.bool)
        still[place] = False
        others = still.nonzero().squeeze(1)
        leaves.append(children[fresh])
        orders.append(torch.cat([place, others]))
        waiting = torch.cat([waiting[others - needed], rights])
        row[waiting] = torch.arange(len(waiting))
        before = left[ends]
        left[rights], right[before] = before, rights
    alone = row[last] < 0
    rest = last[alone]
    roots = torch.where(alone, alone.cumsum(0) - 1, row[last] + len(rest))
    indices = [torch.cat([*leaves, rest]), roots, *orders]
    taken, roots, *orders = split_with_sizes(torch.cat(indices).to(device), [*map(len, indices)])
    made = (Level(len(own), size, order) for own, size, order in zip(leaves, sizes, orders, strict=True))
    return Schedule(taken, tuple(made), len(rest), roots)


def _checked(levels: Tensor, lengths: Sequence[int]) -> Tensor:
    """The levels on the CPU, after making sure that all tokens but the last of each sequence have one."""
    if levels.is_meta:  # shapes only: trees that branch to the left
        chain = torch.arange(1, levels.shape[1] + 1) % levels.shape[1]
        return chain.expand(levels.shape)
    found = levels.cpu()
    inner = torch.arange(levels.shape[1]) < torch.tensor(lengths).unsqueeze(1) - 1
    wrong = ((found > 0) != inner).any(1).nonzero().flatten().tolist()
    if wrong:
        raise InputError(
            f"the levels of sequence {wrong[0]} of the batch describe no tree: they are above 0 at all of its tokens "
            "but the last, and 0 there and under padding"
        )
    return found
