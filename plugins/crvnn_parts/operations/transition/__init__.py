"""The engine's ``transition`` in C++, where neighbours are intervals."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from crvnn_core import Neighbourhood
from crvnn_core.engine.operations.transition import transition
from crvnn_parts.operations.intervals import CompiledIntervals
from crvnn_parts.operations.library import PARTS


@transition.attach
@PARTS.backend
def _compiled(
    ops: Any, c: Tensor, near: Neighbourhood, exists: Tensor, eligible: Tensor, tokens: Tensor
) -> Any:
    if not isinstance(near, CompiledIntervals):
        return NotImplemented
    state = (value.contiguous() for value in (c, exists, eligible, tokens))
    return ops.transition(*state, *near.operands)
