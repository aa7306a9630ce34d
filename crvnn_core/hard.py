"""Hard inference: decisions for real, and one composition for each node of a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.interfaces import Encoding, Neighbourhood
from crvnn_core.state import State
from crvnn_core.trace import Recorder

if TYPE_CHECKING:
    from crvnn_core.engine import Finished, Recursion


class Adjacent(Neighbourhood):
    """Neighbours where everything exists: the positions next to one."""

    def __init__(self, present: Tensor) -> None:
        self.present = present

    def left(self, values: Tensor) -> Tensor:
        return self._seen(values, 1, -1)

    def right(self, values: Tensor) -> Tensor:
        return self._seen(values, -1, 1)

    def _seen(self, values: Tensor, before: int, behind: int) -> Tensor:
        """The values moved along by one."""
        present = self.present if values.dim() == 2 else self.present.unsqueeze(-1)
        return pad(values * present, (0, 0) * (values.dim() - 2) + (before, behind))


@torch.no_grad()
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
    budget = torch.tensor([engine.budget(length) for length in state.lengths], device=mask.device)
    closing = budget <= 0  # what is left joins from left to right
    going = _go_on(finished, state, list(state.lengths))
    staying, sizes = state.present, [state.present.shape[1]] * len(state.lengths)
    while going:
        index = torch.tensor(going, device=mask.device)
        state, closing = state.narrow(going, staying, max(sizes[i] for i in going)), closing[index]
        near = Adjacent(state.present)
        chance = state.exists * (1 - engine.decide(state, near))
        wish = (state.eligible & ((chance <= 0.5) | closing.unsqueeze(1))).to(chance.dtype)
        joins = wish * (1 - near.left(wish))
        gained, staying = near.left(joins), state.present & (joins == 0)
        # How many join, and how many positions and tokens are left of each sequence: the host's one look in a step.
        made, sizes, left = (
            torch.stack([joins.sum(1), staying.sum(1), (staying & state.tokens).sum(1)]).long().tolist()
        )
        state = state.advance(_joined(engine, state.nodes, gained, sum(made)), chance, gained)
        standing = staying.to(chance.dtype)
        if recorder is not None:
            recorder.record(state, joins, standing)
        closing = (
            closing | ~engine.willing(replace(state, exists=standing)) | (state.step >= budget[state.rows])
        )
        going = _go_on(finished, state, left)
    return finished.encoding(recorder)


def _joined(engine: Recursion, nodes: Tensor, gained: Tensor, made: int) -> Tensor:
    """The nodes, with parents where two have joined."""
    flat = nodes.flatten(0, 1)
    where = torch.nonzero_static(gained.flatten(), size=made).squeeze(1)
    parents = engine.compose(flat.index_select(0, where - 1), flat.index_select(0, where))
    return flat.index_copy(0, where, parents).view_as(nodes)


def _go_on(finished: Finished, state: State, left: list[int]) -> list[int]:
    """The sequences of which more than one token is left; the others are done."""
    done = [i for i, count in enumerate(left) if count == 1]
    if done:
        finished.collect(state, done, halted=True)
    return [i for i, count in enumerate(left) if count > 1]
