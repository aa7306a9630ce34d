"""The recursion of the paper (Algorithm 1) over parts that are given to it."""

from __future__ import annotations

import math
from typing import Literal

import torch
from attrs import define, field
from torch import Tensor, nn

from crvnn_core.errors import ContractError
from crvnn_core.interfaces import Cell, Decision, Encoder, Encoding, Halting, Neighbourhood, Retriever, Scorer
from crvnn_core.neighbourhoods import Remembered
from crvnn_core.precision import at_least_float32, autocasting
from crvnn_core.state import State, checked_lengths
from crvnn_core.trace import Recorder


class Recursion(Encoder):
    """Composes neighbours step by step, softly and in parallel, until one node is left of each sequence.

    :param boundaries: put trainable START and END vectors around every sequence.
    :param halt_penalty: weight of the penalty on what still exists beside the last token; 0 switches it off.
    :param penalise: charge it to ``all`` sequences, or only to those ``unhalted`` when their steps ran out.
    :param max_steps: take at most this many steps; 0 for no such limit.
    :param extra_steps: a sequence of n tokens takes at most n - 1 steps, and these in addition.
    """

    def __init__(
        self,
        width: int,
        retriever: Retriever,
        scorer: Scorer,
        decision: Decision,
        cell: Cell,
        halting: Halting,
        boundaries: bool = True,
        halt_penalty: float = 0.01,
        penalise: Literal["all", "unhalted"] = "all",
        max_steps: int = 0,
        extra_steps: int = 0,
    ) -> None:
        super().__init__(width)
        if max_steps < 0 or extra_steps < 0 or not 0 <= halt_penalty < math.inf:
            raise ValueError("max_steps, extra_steps and halt_penalty cannot be negative, nor infinite")
        if penalise not in ("all", "unhalted"):
            raise ValueError(f"penalise must be 'all' or 'unhalted', not {penalise!r}")
        self.retriever, self.scorer, self.decision = retriever, scorer, decision
        self.cell, self.halting = cell, halting
        self.halt_penalty, self.penalise = halt_penalty, penalise
        self.max_steps, self.extra_steps = max_steps, extra_steps
        self.start = nn.Parameter(torch.randn(width)) if boundaries else None
        self.end = nn.Parameter(torch.randn(width)) if boundaries else None

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False) -> Encoding:
        state = self.begin(inputs, mask)
        finished = _Finished(self)
        recorder = Recorder(mask, state.exists.dtype, self._offset) if trace else None
        going_on: State | None = finished.retire(state)
        while going_on is not None:
            compose, state = self.step(going_on)
            if recorder is not None:
                recorder.record(state.rows, compose, state.exists)
            going_on = finished.retire(state)
        return finished.encoding(recorder)

    def step(self, state: State) -> tuple[Tensor, State]:
        """One pass over every sequence: the composition probabilities, and the state after them."""
        near = self._neighbours(state)
        compose = self._decide(state, near)  # c [B, N]
        gained = near.left(compose) * state.tokens  # left(c) [B, N]
        parent = self._compose(near.left(state.nodes), state.nodes)  # [B, N, s]
        nodes = torch.lerp(state.nodes, parent, gained.to(parent.dtype).unsqueeze(-1))
        return compose, state.advance(nodes, state.exists * (1 - compose), gained)

    def _neighbours(self, state: State) -> Neighbourhood:
        near = self.retriever(state.exists, state.present)
        if not isinstance(near, Neighbourhood):
            kinds = f"{type(self.retriever).__name__} returned a {type(near).__name__}"
            raise ContractError(f"retriever {kinds}, not a Neighbourhood", "retriever")
        return Remembered(near)

    def _decide(self, state: State, near: Neighbourhood) -> Tensor:
        scores = self.scorer(self.cell.readout(state.nodes), near, state.gained)  # u [B, N]
        _expect(self.scorer, "scorer", scores, state.exists.shape)
        compose = self.decision(scores.to(state.exists.dtype), near, state.eligible)
        _expect(self.decision, "decision", compose, state.exists.shape)
        return compose.to(state.exists.dtype).clamp(0, 1) * state.eligible

    def _compose(self, left: Tensor, right: Tensor) -> Tensor:
        parent = self.cell(left, right)
        _expect(self.cell, "cell", parent, right.shape)
        return parent.to(right.dtype)

    def begin(self, inputs: Tensor, mask: Tensor) -> State:
        """Leaves in their places, everything existing, nothing composed yet."""
        lengths = checked_lengths(inputs, mask, self.width)
        inputs, mask = inputs[:, : max(lengths)], mask[:, : max(lengths)]
        if autocasting(inputs.device.type):
            inputs = at_least_float32(inputs)  # nodes change in many small steps
        inputs = inputs.masked_fill(~mask.unsqueeze(-1), 0)  # what stands under padding cannot matter
        count = mask.sum(1, keepdim=True)  # [B, 1]
        inputs = self._bounded(inputs, count)
        place = torch.arange(inputs.shape[1], device=inputs.device) - self._offset  # 0 at the first token
        nodes = self.cell.leaf(inputs)
        _expect(self.cell, "leaf transform of cell", nodes, (*inputs.shape[:2], self.cell.state_width))
        nodes = nodes.to(inputs.dtype)
        _expect(self.cell, "read-out of cell", self.cell.readout(nodes), inputs.shape)
        present = place < count + self._offset
        exists = at_least_float32(present.to(nodes.dtype))
        return State(
            nodes=nodes,
            exists=exists,
            gained=torch.zeros_like(exists),
            present=present,
            tokens=(place >= 0) & (place < count),
            eligible=(place >= 0) & (place < count - 1),
            rows=torch.arange(len(lengths), device=inputs.device),
            last=count.squeeze(1) - 1 + self._offset,
            lengths=tuple(lengths),
        )

    def _bounded(self, inputs: Tensor, count: Tensor) -> Tensor:
        """The inputs with START before the first token of each sequence and END behind its last."""
        if self.start is None or self.end is None:
            return inputs
        blank = torch.zeros_like(inputs[:, :1])
        inputs = torch.cat([self.start.to(inputs.dtype).expand_as(blank), inputs, blank], 1)
        place = torch.arange(inputs.shape[1], device=inputs.device)
        return torch.where((place == count + 1).unsqueeze(-1), self.end.to(inputs.dtype), inputs)

    def budget(self, length: int) -> int:
        """The most steps that a sequence of so many tokens may take."""
        limits = [length - 1 + self.extra_steps, self.max_steps or None, self.halting.limit]
        return min(limit for limit in limits if limit is not None)

    @property
    def _offset(self) -> int:
        return 0 if self.start is None else 1


@define
class _Finished:
    """Takes sequences out of the batch as they halt, and puts the results back in order at the end."""

    engine: Recursion
    rows: list[Tensor] = field(factory=list)
    nodes: list[Tensor] = field(factory=list)
    penalties: list[Tensor] = field(factory=list)
    steps: list[Tensor] = field(factory=list)

    def retire(self, state: State) -> State | None:
        """Keep the results of sequences that are done; the state of the others, or ``None``."""
        within = [state.step < self.engine.budget(length) for length in state.lengths]
        willing = self._willing(state)
        going = [i for i in range(len(within)) if within[i] and willing[i]]
        if len(going) == len(within):
            return state
        for halted in (True, False):
            leaving = [
                i for i in range(len(within)) if not (within[i] and willing[i]) and willing[i] != halted
            ]
            if leaving:
                self._collect(state if len(leaving) == len(within) else state.select(leaving), halted)
        return state.select(going) if going else None

    def _willing(self, state: State) -> list[bool]:
        """Which sequences the halting lets go on: the one place in the loop where the host waits for the device."""
        if state.step == 0 or state.nodes.is_meta:
            return [True] * len(state.lengths)
        vectors = self.engine.cell.readout(state.nodes).detach()
        willing = self.engine.halting((state.exists * state.tokens).detach(), vectors, state.step)
        _expect(self.engine.halting, "halting", willing, state.rows.shape)
        if willing.dtype != torch.bool:
            kind = type(self.engine.halting).__name__
            raise ContractError(f"halting {kind} returned {willing.dtype}; it must return bools", "halting")
        answer: list[bool] = willing.tolist()
        return answer

    def _collect(self, state: State, halted: bool) -> None:
        at_last = state.last.view(-1, 1, 1).expand(-1, 1, state.nodes.shape[2])
        self.rows.append(state.rows)
        self.nodes.append(state.nodes.gather(1, at_last).squeeze(1))
        self.steps.append(torch.full_like(state.rows, state.step))
        if self.engine.halt_penalty and not (halted and self.engine.penalise == "unhalted"):
            remaining = (state.exists * state.tokens).sum(1)
            ending = state.exists.gather(1, state.last.unsqueeze(1)).squeeze(1)
            self.penalties.append(-self.engine.halt_penalty * torch.log(ending / remaining))
        else:
            self.penalties.append(state.exists.new_zeros(len(state.rows)))

    def encoding(self, recorder: Recorder | None) -> Encoding:
        """Everything, in the order of the batch."""
        order = torch.cat(self.rows).argsort()
        steps = torch.cat(self.steps)[order]
        return Encoding(
            vector=self.engine.cell.readout(torch.cat(self.nodes)[order]),
            penalty=torch.cat(self.penalties)[order],
            steps=steps,
            trace=recorder.finish(steps) if recorder else None,
        )


def _expect(part: nn.Module, role: str, got: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse what is no tensor of this shape; the last word of ``role`` is the slot."""
    if not isinstance(got, Tensor):
        fault = f"a {type(got).__name__}, not a tensor"
    elif got.shape != shape:
        fault = f"the shape {list(got.shape)}; {list(shape)} was expected"
    else:
        return
    raise ContractError(f"{role} {type(part).__name__} returned {fault}", role.split()[-1])
