"""A store of nodes that are appended step by step and read at any index, in linear time, gradients included.

Indexing one tensor of all nodes at every step would take quadratic time: each read has a gradient of the size of the
whole tensor. Here reads add their gradients to one buffer, and each appended block takes its own from there. Every read
and append depends on the last append through a scalar, so the backward pass reaches a block after all reads of it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from crvnn_parts.layers import first_derivatives


class NodeStore:
    """States of nodes, [size, s] in all, appended in blocks.

    :param size: the most rows that will be appended.
    :param like: a tensor [..., s] of the width, dtype and device of the states.
    """

    def __init__(self, size: int, like: Tensor) -> None:
        self.rows = _Rows(like.new_zeros(size, like.shape[-1]))
        self.filled = 0
        self._last = like.new_zeros(())

    def append(self, states: Tensor) -> None:
        """Append rows [m, s]; the first of them gets the index ``filled``."""
        self._last = _Append.apply(self._last, states, self.rows, self.filled)  # type: ignore[no-untyped-call]
        self.filled += len(states)

    def read(self, index: Tensor) -> Tensor:
        """The rows at ``index`` [...], as [..., s]."""
        states: Tensor = _Read.apply(self._last, index, self.rows)  # type: ignore[no-untyped-call]
        return states


class _Rows:
    """The rows, and in the backward pass the sum of the gradients of their reads.

    It must not refer to a tensor of the graph, whose nodes refer to it: such a cycle would never be freed.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.summed: Tensor | None = None

    def gradient(self) -> Tensor:
        if self.summed is None:
            self.summed = self.values.new_zeros(self.values.shape)
        return self.summed


class _Append(Function):
    @staticmethod
    def forward(ctx: Any, last: Tensor, states: Tensor, rows: _Rows, begin: int) -> Tensor:
        ctx.rows, ctx.block, ctx.dtype = rows, slice(begin, begin + len(states)), states.dtype
        rows.values[ctx.block] = states
        return last.clone()

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, of_last: Tensor) -> tuple[Tensor | None, ...]:
        block = ctx.rows.gradient()[ctx.block]
        of_states = block.to(ctx.dtype, copy=True)
        block.zero_()  # for another backward pass through the same graph
        return of_last, of_states, None, None


class _Read(Function):
    @staticmethod
    def forward(ctx: Any, last: Tensor, index: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        ctx.save_for_backward(index)
        return rows.values[index]

    @staticmethod
    @first_derivatives
    def backward(ctx: Any, of_states: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        total = ctx.rows.gradient()
        total.index_add_(0, index.flatten(), of_states.reshape(-1, of_states.shape[-1]).to(total.dtype))
        return of_states.new_zeros(()), None, None
