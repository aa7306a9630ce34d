"""Results of sequences as they halt, put back into the order of the batch at the end."""

from __future__ import annotations

from collections.abc import Callable

import torch
from attrs import define, field
from torch import Tensor

from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.interfaces import Encoding


@define
class Results:
    """What halted sequences leave behind: their root, their penalty, their number of steps.

    :param penalty: weight of the halt penalty; 0 for none.
    :param unhalted_only: charge it only to sequences whose steps ran out.
    """

    penalty: float
    unhalted_only: bool
    rows: list[Tensor] = field(factory=list)
    nodes: list[Tensor] = field(factory=list)
    penalties: list[Tensor] = field(factory=list)
    steps: list[Tensor] = field(factory=list)

    def add(self, state: State, sequences: list[int], halted: bool) -> None:
        """Keep the results of these sequences of a state, which halted or whose steps ran out."""
        index = torch.tensor(sequences, device=state.nodes.device)
        rows, last = state.batch_index.index_select(0, index), state.last().index_select(0, index)
        self.rows.append(rows)
        self.nodes.append(state.nodes[index, last])
        self.steps.append(torch.full_like(rows, state.step))
        if self.penalty and not (halted and self.unhalted_only):
            exists = state.exists.index_select(0, index)
            remaining = (exists * state.tokens.index_select(0, index)).sum(1)
            ending = exists.gather(1, last.unsqueeze(1)).squeeze(1)
            self.penalties.append(-self.penalty * torch.log(ending / remaining))
        else:
            self.penalties.append(state.exists.new_zeros(len(rows)))

    def encoding(self, readout: Callable[[Tensor], Tensor], recorder: Recorder | None) -> Encoding:
        """All of them, in the order of the batch."""
        order = torch.cat(self.rows).argsort()
        steps = torch.cat(self.steps)[order]
        return Encoding(
            vector=readout(torch.cat(self.nodes)[order]),
            penalty=torch.cat(self.penalties)[order],
            steps=steps,
            trace=recorder.finish(steps) if recorder else None,
        )
