"""Hard inference: decisions for real, and one composition for each node of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.interfaces import Encoding
from crvnn_core.kernels import ready

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Finished, Recursion


@torch.inference_mode()
def compose_hard(
    engine: Recursion, inputs: Tensor, mask: Tensor, finished: Finished, trace: bool
) -> Encoding:
    """Encode along one tree for each sequence, with exactly n - 1 compositions of n tokens.

    A position joins its right neighbour when by then it has more likely been composed than not. Of neighbours that
    would do so in the same step the left one goes first. When a sequence halts, or its steps run out, what is left
    of it joins from left to right. Here ``state.exists`` is the chance of not having been composed yet.
    """
    state = engine.begin(inputs, mask)
    recorder = Recorder(mask, state.exists.dtype) if trace else None
    left, sizes = list(state.lengths), [length + 2 * state.behind for length in state.lengths]
    closing = [False] * len(left)  # whether what is left joins from left to right
    staying = state.present
    while going := _go_on(finished, state, left):
        left, sizes = [left[i] for i in going], [sizes[i] for i in going]
        closing = [closing[i] for i in going]
        if state.step or len(going) < len(state.lengths):
            state = state.narrow(going, staying, max(sizes))
        closing = [
            over or state.step >= engine.budget(length)
            for over, length in zip(closing, state.lengths, strict=True)
        ]
        over = torch.tensor(closing, device=mask.device) if any(closing) else None
        present = state.present.to(state.exists.dtype)  # what is still there exists for sure
        compose = engine.decide(state, adjacent(state.present, state.exists), present)
        chance, joins, gained, staying, exists = _join(compose, state, over)
        # The host's one look in a step: how many join, and which sequences the halting lets go on. It comes before
        # the parents are made, so a halting that looks at the nodes sees those of the step before.
        willing = engine.willing(exists, state.nodes, state.step + 1)
        made, willing = torch.stack([joins.sum(1), willing]).tolist()
        nodes = _joined(engine, state.nodes, gained, sum(made))
        state = state.advance(chance, gained)
        state.nodes = nodes
        if recorder is not None:
            recorder.record(state, joins, exists)
        left = [count - joined for count, joined in zip(left, made, strict=True)]
        sizes = [size - joined for size, joined in zip(sizes, made, strict=True)]
        closing = [over or not go_on for over, go_on in zip(closing, willing, strict=True)]
    return finished.encoding(recorder)


def _join(compose: Tensor, state: State, closing: Tensor | None) -> tuple[Tensor, ...]:
    """From c [B, N]: the chance now, who joins, who receives (as numbers), who stays, which tokens do (as numbers)."""
    if (kernels := ready(compose, state.exists)) is not None:
        given = [value.contiguous() for value in (compose, state.exists, state.eligible, state.tokens)]
        found: tuple[Tensor, ...] = kernels.join(*given, state.present.contiguous(), closing)
        return found
    chance = state.exists * (1 - compose)
    surely = chance <= 0.5
    if closing is not None:
        surely = surely | closing.unsqueeze(1)
    wish = state.eligible & surely
    joins = wish & ~_shifted(wish)
    staying = state.present & ~joins
    return chance, joins, _shifted(joins).to(chance.dtype), staying, (staying & state.tokens).to(chance.dtype)


def _shifted(flags: Tensor) -> Tensor:
    """Each position's left neighbour's flag [B, N]."""
    return torch.cat([flags.new_zeros(len(flags), 1), flags[:, :-1]], 1)


def _joined(engine: Recursion, nodes: Tensor, gained: Tensor, made: int) -> Tensor:
    """The nodes, with parents where two have joined."""
    flat = nodes.flatten(0, 1)
    where = torch.nonzero_static(gained.flatten(), size=made).squeeze(1)
    parents = engine.compose(flat.index_select(0, where - 1), flat.index_select(0, where))
    return flat.index_copy_(0, where, parents).view_as(nodes)  # nobody else has them


def _go_on(finished: Finished, state: State, left: list[int]) -> list[int]:
    """The sequences of which more than one token is left; the others are done."""
    done = [i for i, count in enumerate(left) if count == 1]
    if done:
        finished.collect(state, done, halted=True)
    return [i for i, count in enumerate(left) if count > 1]
