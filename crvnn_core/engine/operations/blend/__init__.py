"""Eq. 3: nodes and their parents, mixed in proportion to left(c)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_core.engine.operations import ENGINE
from crvnn_core.kernels import Operation


@Operation
def blend(nodes: Tensor, parents: Tensor, left_c: Tensor) -> Tensor:
    """left(c) parents + (1 - left(c)) nodes [B, N, s] (Eq. 3)."""
    return torch.lerp(nodes, parents, left_c.to(nodes.dtype).unsqueeze(-1))


@blend.attach
@ENGINE.backend
def _compiled_blend(ops: Any, nodes: Tensor, parents: Tensor, left_c: Tensor) -> Any:
    return ops.blend(nodes.contiguous(), parents.contiguous(), left_c.contiguous(), None)


@Operation
def blend_at(nodes: Tensor, own: Tensor, parents: Tensor, left_c: Tensor, rows: Tensor) -> Tensor:
    """The same with parents [m, s] of some rows [m] alone; ``own`` [m, s] are the nodes there."""
    share = left_c.flatten().index_select(0, rows).to(nodes.dtype).unsqueeze(-1)
    return nodes.flatten(0, 1).index_copy(0, rows, torch.lerp(own, parents, share)).view_as(nodes)


@blend_at.attach
@ENGINE.backend
def _compiled_blend_at(
    ops: Any, nodes: Tensor, own: Tensor, parents: Tensor, left_c: Tensor, rows: Tensor
) -> Any:
    return ops.blend(nodes.contiguous(), parents.contiguous(), left_c.contiguous(), rows)
