"""Which positions and sequences are kept after a step, and the batch without the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_core.engine.operations import ENGINE
from crvnn_core.engine.operations.rows import flagged_rows
from crvnn_core.kernels import Operation


@Operation
def survey(more: Tensor, exists: Tensor, present: Tensor, eligible: Tensor) -> tuple[Tensor, Tensor]:
    """Which positions are kept [B, N], namely those with e > 0 or that are not eligible; and per sequence [3, B]:
    whether the halting wants ``more`` steps [B], how many positions are kept, how many of these have e < 1."""
    kept = present & ((exists != 0) | ~eligible)
    return kept, torch.stack([more.long(), kept.sum(1), (kept & (exists != 1)).sum(1)])


@survey.attach
@ENGINE.backend
def _compiled_survey(ops: Any, more: Tensor, exists: Tensor, present: Tensor, eligible: Tensor) -> Any:
    return ops.survey(*(value.contiguous() for value in (more, exists, present, eligible)))


@Operation
def compact(
    nodes: Tensor,
    exists: Tensor,
    left_c: Tensor,
    kept: Tensor,
    tokens: Tensor,
    eligible: Tensor,
    place: Tensor,
    sequences: list[int],
    size: int,
) -> tuple[Tensor, ...]:
    """The kept positions of some sequences, moved to the left, and padding up to ``size``.

    Of nodes [B, N, s], existence, left(c), kept, tokens, eligible and place [B, N], in this order; behind them the
    position that each had before [b, size]. Padding has e = 0 and is neither token nor eligible.
    """
    if len(sequences) < len(kept):
        index = torch.tensor(sequences, device=kept.device)
        nodes, exists, left_c, kept, tokens, eligible, place = (
            value[index] for value in (nodes, exists, left_c, kept, tokens, eligible, place)
        )
    if len(kept) == 1:  # nothing but kept positions
        order = flagged_rows(kept, size).unsqueeze(0)
    else:  # the kept positions first, in their order; what is behind them becomes padding
        order = kept.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
    first = torch.arange(0, kept.numel(), kept.shape[1], device=order.device).unsqueeze(1)
    rows = (order + first).flatten()
    nodes, exists, left_c = (
        values.flatten(0, 1).index_select(0, rows).view(*order.shape, *values.shape[2:])
        for values in (nodes, exists, left_c)
    )
    present, tokens, eligible, place = (values.gather(1, order) for values in (kept, tokens, eligible, place))
    if len(order) > 1:  # one sequence alone has no padding
        exists, tokens, eligible = exists * present, tokens & present, eligible & present
    return nodes, exists, left_c, present, tokens, eligible, place, order


@compact.attach
@ENGINE.backend
def _compiled_compact(ops: Any, *given: Any) -> Any:
    *tensors, sequences, size = given
    return ops.compact(*(value.contiguous() for value in tensors), sequences, size)
