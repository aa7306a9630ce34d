"""Adapters from ``crvnn_core.engine.operations`` (same names and arguments) to C++ operators."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def blend(ops: Any, nodes: Tensor, parents: Tensor, left_c: Tensor) -> Any:
    return ops.blend(nodes.contiguous(), parents.contiguous(), left_c.contiguous(), None)


def blend_at(ops: Any, nodes: Tensor, own: Tensor, parents: Tensor, left_c: Tensor, rows: Tensor) -> Any:
    return ops.blend(nodes.contiguous(), parents.contiguous(), left_c.contiguous(), rows)


def rows_at(ops: Any, one: Tensor, two: Tensor, rows: Tensor) -> Any:
    return ops.rows_at(one.contiguous(), two.contiguous(), rows)


def take_children(ops: Any, nodes: Tensor, rows: Tensor) -> Any:
    return ops.take_children(nodes.contiguous(), rows)


def put_parents(ops: Any, nodes: Tensor, parents: Tensor, rows: Tensor) -> Any:
    return ops.put_parents(nodes.contiguous(), parents.contiguous(), rows)


def changed_rows(ops: Any, left_c: Tensor, exists: Tensor, tolerance: float) -> Any:
    return ops.changed_rows(left_c.contiguous(), exists.contiguous(), tolerance)


def survey(ops: Any, more: Tensor, exists: Tensor, present: Tensor, eligible: Tensor) -> Any:
    return ops.survey(*(value.contiguous() for value in (more, exists, present, eligible)))


def compact(
    ops: Any,
    nodes: Tensor,
    exists: Tensor,
    left_c: Tensor,
    kept: Tensor,
    tokens: Tensor,
    eligible: Tensor,
    place: Tensor,
    sequences: list[int],
    size: int,
) -> Any:
    given = (nodes, exists, left_c, kept, tokens, eligible, place)
    return ops.compact(*(value.contiguous() for value in given), sequences, size)


def join(
    ops: Any,
    c: Tensor,
    before: Tensor,
    eligible: Tensor,
    tokens: Tensor,
    present: Tensor,
    closing: Tensor,
) -> Any:
    given = (c, before, eligible, tokens, present, closing)
    return ops.join(*(value.contiguous() for value in given))
