"""Rows of nodes, selected by their indices; and the indices of rows that change or are flagged."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_core.engine.operations import ENGINE
from crvnn_core.kernels import Operation


@Operation
def rows_at(one: Tensor, two: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Some rows [m] of two tensors [B, N, s]: [m, s] each."""
    return one.flatten(0, 1).index_select(0, rows), two.flatten(0, 1).index_select(0, rows)


@rows_at.attach
@ENGINE.backend
def _compiled_rows_at(ops: Any, one: Tensor, two: Tensor, rows: Tensor) -> Any:
    return ops.rows_at(one.contiguous(), two.contiguous(), rows)


@Operation
def take_children(nodes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes [m, s] of some rows [m], those of the rows behind them, and all nodes, for ``put_parents``."""
    flat = nodes.flatten(0, 1)
    return flat.index_select(0, rows), flat.index_select(0, rows + 1), nodes


@take_children.attach
@ENGINE.backend
def _compiled_take_children(ops: Any, nodes: Tensor, rows: Tensor) -> Any:
    return ops.take_children(nodes.contiguous(), rows)


@Operation
def put_parents(nodes: Tensor, parents: Tensor, rows: Tensor) -> Tensor:
    """The nodes [B, N, s] with parents [m, s] in the rows behind some rows [m].

    Without gradients the nodes themselves are changed: nothing else may hold them.
    """
    flat = nodes.flatten(0, 1)
    put = flat.index_copy if torch.is_grad_enabled() else flat.index_copy_
    return put(0, rows + 1, parents).view_as(nodes)


@put_parents.attach
@ENGINE.backend
def _compiled_put_parents(ops: Any, nodes: Tensor, parents: Tensor, rows: Tensor) -> Any:
    return ops.put_parents(nodes.contiguous(), parents.contiguous(), rows)


@Operation
def changed_rows(left_c: Tensor, exists: Tensor, tolerance: float) -> Tensor:
    """The rows [m] where left(c) times existence is above a tolerance; the host waits for their number."""
    return (left_c * exists > tolerance).flatten().nonzero().squeeze(1)


@changed_rows.attach
@ENGINE.backend
def _compiled_changed_rows(ops: Any, left_c: Tensor, exists: Tensor, tolerance: float) -> Any:
    return ops.changed_rows(left_c.contiguous(), exists.contiguous(), tolerance)


@Operation
def flagged_rows(flags: Tensor, count: int) -> Tensor:
    """The rows [count] where flags [B, N] are set; as their number is known, the host waits for nothing."""
    return flags.flatten().to(torch.uint8).argsort(descending=True, stable=True)[:count]


@flagged_rows.attach
def _on_a_cpu(flags: Tensor, count: int) -> Any:
    """Quicker than sorting, where looking at values costs no wait."""
    return flags.flatten().nonzero().squeeze(1) if flags.is_cpu else NotImplemented
