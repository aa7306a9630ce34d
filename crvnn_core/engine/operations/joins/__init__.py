"""Binary decisions: which positions join their right neighbours, in hard inference and along trees."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.operations import ENGINE
from crvnn_core.kernels import Operation


@Operation
def join(
    c: Tensor, before: Tensor, eligible: Tensor, tokens: Tensor, present: Tensor, closing: Tensor
) -> tuple[Tensor, ...]:
    """Binary decisions [B, N], from c and from the probability ``before`` of not having been composed yet.

    Returned: that probability now; which positions join their right neighbour; which receive one (1 or 0); which are
    kept; which tokens are (1 or 0). A position joins when the probability has come down to 0.5, or its sequence is
    ``closing`` [B]; of two neighbours only the left one does.
    """
    remaining = before * (1 - c)
    wishes = eligible & ((remaining <= 0.5) | closing.unsqueeze(1))
    joins = wishes & ~_from_left(wishes)
    kept = present & ~joins
    kind = remaining.dtype
    return remaining, joins, _from_left(joins).to(kind), kept, (kept & tokens).to(kind)


@join.attach
@ENGINE.backend
def _compiled_join(ops: Any, *given: Tensor) -> Any:
    return ops.join(*(value.contiguous() for value in given))


def _from_left(flags: Tensor) -> Tensor:
    """The flag of each position's left neighbour [B, N]."""
    return pad(flags[:, :-1], (1, 0))
