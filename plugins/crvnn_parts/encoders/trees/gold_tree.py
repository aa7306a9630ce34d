"""Composition along the task's own trees: Tree-LSTM, Tree-RNN and Tree-Cell, by the cell."""

from __future__ import annotations

from torch import Tensor

from crvnn_core import Cell, Encoder, Encoding, InputError, checked_lengths
from crvnn_parts.encoders.trees.schedule import schedule_of


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
