"""The operations of the engine, each defined by its body in torch.

Shapes: B sequences, N positions (START, tokens, END, padding), s numbers a node. A *row* is a position counted through
the whole batch: position i of sequence b is row b N + i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.native import ENGINE
from crvnn_core.interfaces import Neighbourhood
from crvnn_core.kernels import operation


@operation()
def transition(
    c: Tensor, near: Neighbourhood, exists: Tensor, eligible: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """c where a position is eligible, left(c) where it is a token, and e (1 - c); [B, N] each."""
    c = c * eligible
    left_c = near.left(c) * tokens
    return c, left_c, torch.addcmul(exists, exists, c, value=-1)


@operation(ENGINE)
def blend(nodes: Tensor, parents: Tensor, left_c: Tensor) -> Tensor:
    """left(c) parents + (1 - left(c)) nodes [B, N, s] (Eq. 3)."""
    return torch.lerp(nodes, parents, left_c.to(nodes.dtype).unsqueeze(-1))


@operation(ENGINE)
def blend_at(nodes: Tensor, own: Tensor, parents: Tensor, left_c: Tensor, rows: Tensor) -> Tensor:
    """The same with parents [m, s] of some rows [m] alone; ``own`` [m, s] are the nodes there."""
    share = left_c.flatten().index_select(0, rows).to(nodes.dtype).unsqueeze(-1)
    return nodes.flatten(0, 1).index_copy(0, rows, torch.lerp(own, parents, share)).view_as(nodes)


@operation(ENGINE)
def rows_at(one: Tensor, two: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Some rows [m] of two tensors [B, N, s]: [m, s] each."""
    return one.flatten(0, 1).index_select(0, rows), two.flatten(0, 1).index_select(0, rows)


@operation(ENGINE)
def take_children(nodes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes [m, s] of some rows [m], those of the rows behind them, and all nodes, for ``put_parents``."""
    flat = nodes.flatten(0, 1)
    return flat.index_select(0, rows), flat.index_select(0, rows + 1), nodes


@operation(ENGINE)
def put_parents(nodes: Tensor, parents: Tensor, rows: Tensor) -> Tensor:
    """The nodes [B, N, s] with parents [m, s] in the rows behind some rows [m].

    Without gradients the nodes themselves are changed: nothing else may hold them.
    """
    flat = nodes.flatten(0, 1)
    put = flat.index_copy if torch.is_grad_enabled() else flat.index_copy_
    return put(0, rows + 1, parents).view_as(nodes)


@operation(ENGINE)
def changed_rows(left_c: Tensor, exists: Tensor, tolerance: float) -> Tensor:
    """The rows [m] where left(c) times existence is above a tolerance; the host waits for their number."""
    return (left_c * exists > tolerance).flatten().nonzero().squeeze(1)


@operation(ENGINE)
def survey(more: Tensor, exists: Tensor, present: Tensor, eligible: Tensor) -> tuple[Tensor, Tensor]:
    """Which positions are kept [B, N], namely those with e > 0 or that are not eligible; and per sequence [3, B]:
    whether the halting wants ``more`` steps [B], how many positions are kept, how many of these have e < 1."""
    kept = present & ((exists != 0) | ~eligible)
    return kept, torch.stack([more.long(), kept.sum(1), (kept & (exists != 1)).sum(1)])


@operation()
def flagged_rows(flags: Tensor, count: int) -> Tensor:
    """The rows [count] where flags [B, N] are set; as their number is known, the host waits for nothing."""
    return flags.flatten().to(torch.uint8).argsort(descending=True, stable=True)[:count]


@flagged_rows.attach
def _on_a_cpu(flags: Tensor, count: int) -> Any:
    """Quicker than sorting, where looking at values costs no wait."""
    return flags.flatten().nonzero().squeeze(1) if flags.is_cpu else NotImplemented


@operation(ENGINE)
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


@operation(ENGINE)
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
    joins = wishes & ~from_left(wishes)
    kept = present & ~joins
    kind = remaining.dtype
    return remaining, joins, from_left(joins).to(kind), kept, (kept & tokens).to(kind)


def zero_of(parameters: Sequence[Tensor]) -> Tensor:
    """The number 0, whose gradient with respect to these parameters is 0 rather than none."""
    return torch.cat([own.flatten()[:0] for own in parameters]).sum()


def from_left(flags: Tensor) -> Tensor:
    """The flag of each position's left neighbour [B, N]."""
    return pad(flags[:, :-1], (1, 0))
