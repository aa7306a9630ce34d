"""Encoders with a fixed tree structure, which the paper's ablations compare with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crvnn_core import Cell, CrvnnError, Encoder, Encoding, checked_lengths
from crvnn_core.engine.traceable import while_loop


class _FixedStructure(Encoder):
    """A cell applied along a tree that depends on the length of the sequence alone."""

    def __init__(self, width: int, cell: Cell) -> None:
        super().__init__(width)
        self.cell = cell

    def _leaves(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.cell.leaf(inputs.masked_fill(~mask.unsqueeze(-1), 0)).to(inputs.dtype)

    def _encoding(self, nodes: Tensor, steps: Tensor, joins: list[list[int]] | None) -> Encoding:
        return Encoding(self.cell.readout(nodes), nodes.new_zeros(len(nodes)), steps, joins=joins)


class LeftToRight(_FixedStructure):
    """The cell as a recurrent network from left to right; the initial state is the leaf of a trainable START."""

    def __init__(self, width: int, cell: Cell) -> None:
        super().__init__(width, cell)
        self.start = nn.Parameter(torch.randn(width))

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        leaves = self._leaves(inputs, mask)
        state = self.cell.leaf(self.start.to(inputs.dtype)).to(inputs.dtype).expand_as(leaves[:, 0])
        for position in range(leaves.shape[1]):
            parent = self.cell(state, leaves[:, position]).to(state.dtype)
            state = torch.where(mask[:, position, None], parent, state)
        joins = [list(range(length - 1)) for length in lengths] if trace else None
        return self._encoding(state, mask.sum(1), joins)

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        return _TraceableLeftToRight(self) if depth is None else super().traceable(depth=depth)


class _TraceableLeftToRight(nn.Module):
    """From inputs [B, n, d] and mask [B, n] to vectors [B, d], with a loop over positions that torch can trace."""

    def __init__(self, encoder: LeftToRight) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        cell = self.encoder.cell
        leaves = self.encoder._leaves(inputs, mask).transpose(0, 1)  # [n, B, s]
        state = cell.leaf(self.encoder.start.to(inputs.dtype)).expand_as(leaves[0]).clone()

        def step(position: Tensor, state: Tensor) -> tuple[Tensor, ...]:
            parent = cell(state, leaves.index_select(0, position)[0])
            there = mask.index_select(1, position)
            return position + 1, torch.where(there, parent, state)

        position = torch.zeros(1, dtype=torch.long, device=inputs.device)
        _, root = while_loop(lambda at, _: (at < leaves.shape[0]).all(), step, (position, state))
        return cell.readout(root)


class Balanced(_FixedStructure):
    """The cell along balanced trees: a span of n tokens splits after its first ceil(n / 2), recursively."""

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        lengths = checked_lengths(inputs, mask, self.width)
        # All nodes as rows [m, s]: the leaves of all sequences, then the parents level by level.
        nodes = self._leaves(inputs, mask).flatten(0, 1)
        levels: list[list[tuple[int, int, int, int]]] = []
        for row, length in enumerate(lengths):
            _plan(levels, row, row * inputs.shape[1], length)
        root = {row: row * inputs.shape[1] for row in range(len(lengths))}
        node_row: dict[tuple[int, int, int], int] = {}
        for level in levels:
            ends = [
                [node_row.get((row, begin, middle), begin), node_row.get((row, middle, end), middle)]
                for row, begin, middle, end in level
            ]
            children = nodes[torch.tensor(ends, device=nodes.device).view(-1)].view(len(level), 2, -1)
            for offset, (row, begin, _, end) in enumerate(level):
                node_row[row, begin, end] = root[row] = len(nodes) + offset
            nodes = torch.cat([nodes, self.cell(children[:, 0], children[:, 1]).to(nodes.dtype)])
        depths = torch.tensor([max(length - 1, 0).bit_length() for length in lengths], device=nodes.device)
        roots = torch.tensor([root[row] for row in range(len(lengths))], device=nodes.device)
        return self._encoding(
            nodes[roots], depths, _joins(levels, lengths, inputs.shape[1]) if trace else None
        )

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> nn.Module:
        raise CrvnnError("its tree is made in Python from the length of each sequence")


def _joins(levels: list[list[tuple[int, int, int, int]]], lengths: list[int], width: int) -> list[list[int]]:
    """The positions of each row that join their right neighbours, level by level."""
    found: list[list[int]] = [[] for _ in lengths]
    for level in levels:
        for row, _, middle, _ in level:
            found[row].append(middle - 1 - row * width)
    return found


def _plan(levels: list[list[tuple[int, int, int, int]]], row: int, begin: int, length: int) -> int:
    """Append every composition (row, begin, middle, end) of a span to the level of its height; returns that height."""
    if length == 1:
        return 0
    half = (length + 1) // 2
    height = 1 + max(_plan(levels, row, begin, half), _plan(levels, row, begin + half, length - half))
    levels.extend([] for _ in range(height - len(levels)))
    levels[height - 1].append((row, begin, begin + half, begin + length))
    return height
