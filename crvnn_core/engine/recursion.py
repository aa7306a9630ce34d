"""The recursion of the paper (Algorithm 1) over parts that are given to it."""

from __future__ import annotations

import math
from typing import Literal

import torch
from attrs import define, field
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from crvnn_core.engine.hard import compose_hard
from crvnn_core.engine.neighbourhoods import Remembered, adjacent, nearest_present
from crvnn_core.engine.state import Outlook, State, checked_lengths
from crvnn_core.engine.trace import Recorder
from crvnn_core.errors import ContractError
from crvnn_core.interfaces import Cell, Decision, Encoder, Encoding, Halting, Neighbourhood, Retriever, Scorer
from crvnn_core.kernels import ready, recursion
from crvnn_core.kernels.along import Along
from crvnn_core.precision import at_least_float32, autocasting


class Recursion(Encoder):
    """Composes neighbours step by step, softly and in parallel, until one node is left of each sequence.

    :param boundaries: put trainable START and END vectors around every sequence.
    :param halt_penalty: weight of the penalty on what still exists beside the last token; 0 switches it off.
    :param penalise: charge it to ``all`` sequences, or only to those ``unhalted`` when their steps ran out.
    :param max_steps: take at most this many steps; 0 for no such limit.
    :param extra_steps: a sequence of n tokens takes at most n - 1 steps, and these in addition.
    :param shortcuts: positions that no longer exist leave their sequence, and the cell runs only where it changes
        something; false to work on everything to the end.
    :param drop: how much existence may be lost between two positions that stay; 0 for none, which is exact.
    :param skip: the cell is left out where left(c), times what still exists, is at most this; 0 is exact.
    :param checkpoint: keep only the nodes of each step for the backward pass and work out the rest again.
    """

    hard_inference = True

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
        shortcuts: bool = True,
        drop: float = 0.0,
        skip: float = 0.0,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(width)
        if max_steps < 0 or extra_steps < 0 or not 0 <= halt_penalty < math.inf:
            raise ValueError("max_steps, extra_steps and halt_penalty cannot be negative, nor infinite")
        if not 0 <= drop < 1 or not 0 <= skip < 1:
            raise ValueError(f"drop and skip must be at least 0 and below 1, not {drop} and {skip}")
        if penalise not in ("all", "unhalted"):
            raise ValueError(f"penalise must be 'all' or 'unhalted', not {penalise!r}")
        self.retriever, self.scorer, self.decision = retriever, scorer, decision
        self.cell, self.halting = cell, halting
        self.halt_penalty, self.penalise = halt_penalty, penalise
        self.max_steps, self.extra_steps = max_steps, extra_steps
        self.shortcuts, self.drop, self.skip, self.checkpoint = shortcuts, drop, skip, checkpoint
        #: Whether to decide for real and compose along one tree (see ``crvnn_core.engine.hard``), for inference only.
        self.hard = False
        self.start = nn.Parameter(torch.randn(width)) if boundaries else None
        self.end = nn.Parameter(torch.randn(width)) if boundaries else None

    def forward(self, inputs: Tensor, mask: Tensor, *, trace: bool = False, hard: bool = False) -> Encoding:
        with recursion(inputs):
            if hard or self.hard:
                return compose_hard(self, inputs, mask, Finished(self), trace)
            return self._encode(inputs, mask, trace)

    def _encode(self, inputs: Tensor, mask: Tensor, trace: bool) -> Encoding:
        state = self.begin(inputs, mask)
        finished = Finished(self)
        recorder = Recorder(mask, state.exists.dtype) if trace else None
        going_on: State | None = finished.retire(state)
        while going_on is not None:
            compose, state = self._recomputed(going_on) if self.checkpoint else self.step(going_on)
            if recorder is not None:
                recorder.record(state, compose, state.exists)
            going_on = finished.retire(state)
        return finished.encoding(recorder)

    def step(self, state: State) -> tuple[Tensor, State]:
        """One pass over every sequence: the composition probabilities, and the state after them."""
        near = self._neighbours(state)
        # c, left(c), e (1 - c) [B, N]
        compose, gained, exists = _advance(self.decide(state, near, state.exists), near, state)
        after = state.advance(exists, gained)
        if not self.halting.needs_vectors:
            after.outlook = self.look(after)
        after.nodes = self._mix(near.left(state.nodes), state.nodes, after)  # [B, N, s]
        return compose, after

    def _recomputed(self, state: State) -> tuple[Tensor, State]:
        """The same step; the backward pass makes its intermediate results again."""

        def step(state: State) -> tuple[Tensor, State]:
            # Again by the same products: what is close to a threshold must not cross it.
            with recursion(state.nodes):
                return self.step(state)

        found: tuple[Tensor, State] = checkpoint(step, state, use_reentrant=False)
        return found

    def _mix(self, left: Tensor, nodes: Tensor, after: State) -> Tensor:
        """Parents in the measure of left(c), the nodes as they were in the rest."""
        gained, where = after.gained, self._changing(after)
        if where is None:
            return _blend(nodes, self.compose(left, nodes), gained)
        children, own = _pick(left, nodes, where)
        return _blend_some(nodes, own, self.compose(children, own), gained, where)

    def _changing(self, after: State) -> Tensor | None:
        """The positions [m], of all sequences in a row, whose nodes change and still matter; ``None`` for all.

        When every sequence is done, that is its last token. Counting others makes the host wait for the device, so
        this is done only where that costs nothing.
        """
        gained, exists = after.gained, after.exists
        if self.shortcuts and after.outlook is not None and not after.outlook.going:
            return after.last() + torch.arange(0, gained.numel(), gained.shape[1], device=gained.device)
        if not (self._may_leave_out(self.skip) and looking_is_free(gained)):
            return None
        where = _above(self.skip, gained.detach(), exists.detach())
        return where if len(where) < _WORTH * gained.numel() else None

    def look(self, state: State) -> Outlook:
        """Who goes on after a step, and which positions stay.

        This is the one place in the loop where the host waits for the device.
        """
        willing, sizes = [True] * len(state.lengths), [length + 2 * state.behind for length in state.lengths]
        unsure = sizes if state.step else [0] * len(sizes)
        staying = state.present
        if state.step and not state.nodes.is_meta:
            asked = self.willing(state.exists.detach() * state.tokens, state.nodes, state.step)
            if self._leaving() or self.settles():
                staying, facts = self._survey(asked, state)
                answer, sizes, unsure = facts.tolist()
                willing = [bool(go_on) for go_on in answer]
            else:
                willing = asked.tolist()
        going = [i for i, go in enumerate(willing) if go and state.step < self.budget(state.lengths[i])]
        return Outlook(staying, willing, going, sizes, unsure)

    def _survey(self, asked: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """Which positions go on to the next step [B, N]; and for every sequence the answer of the halting, how many
        positions stay, and how many of these may not exist [3, B]."""
        drop = self.drop if self._leaving() else None
        if drop == 0 and self.settles() and (kernels := ready(state.exists)) is not None:
            given = [value.contiguous() for value in (asked, state.exists, state.present, state.eligible)]
            found: tuple[Tensor, Tensor] = kernels.survey(*given)
            return found
        staying = state.present if drop is None else state.survivors(drop)
        doubtful = staying & (state.exists != 1) if self.settles() else staying
        return staying, torch.stack([asked.long(), staying.sum(1), doubtful.sum(1)])

    def settles(self) -> bool:
        """Whether decisions can be exact, and then have no gradient that would be missed."""
        exact = self.shortcuts and self.decision.can_saturate
        return exact and (self.decision.gradient_vanishes or not torch.is_grad_enabled())

    def _may_leave_out(self, tolerance: float) -> bool:
        """Whether there can be something of no weight, and it may be left out: not where it still has a gradient."""
        some = self.shortcuts and (tolerance > 0 or (tolerance == 0 and self.decision.can_saturate))
        return some and (self.decision.gradient_vanishes or not torch.is_grad_enabled())

    def _leaving(self) -> bool:
        """Whether positions that no longer exist may leave: not where a retriever counts positions."""
        return self.retriever.reach is None and self._may_leave_out(self.drop)

    def _neighbours(self, state: State) -> Neighbourhood:
        if state.whole and self.shortcuts:
            return adjacent(state.present, state.exists)
        near = self.retriever(state.exists, state.present)
        if not isinstance(near, Neighbourhood):
            kinds = f"{type(self.retriever).__name__} returned a {type(near).__name__}"
            raise ContractError(f"retriever {kinds}, not a Neighbourhood", "retriever")
        return near if isinstance(near, Along) else Remembered(near)

    def decide(self, state: State, near: Neighbourhood, exists: Tensor) -> Tensor:
        """Composition probabilities c [B, N], where positions exist with probabilities ``exists`` [B, N]."""
        scores = self.scorer(self.cell.readout(state.nodes), near, state.gained)  # u [B, N]
        _expect(self.scorer, "scorer", scores, state.exists.shape)
        compose = self.decision(scores.to(exists.dtype), near, state.eligible, exists)
        _expect(self.decision, "decision", compose, state.exists.shape)
        return compose.to(state.exists.dtype)

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        """Parents of two children each [..., s]."""
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
            lost=torch.zeros_like(exists) if self.drop > 0 else None,
            present=present,
            tokens=(place >= 0) & (place < count),
            eligible=(place >= 0) & (place < count - 1),
            place=place.expand_as(exists),
            rows=torch.arange(len(lengths), device=inputs.device),
            behind=self._offset,
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

    def willing(self, exists: Tensor, nodes: Tensor, step: int) -> Tensor:
        """Which sequences the halting lets go on [B], from what exists of their tokens [B, N] after a step."""
        willing = self.halting(exists.detach(), self.cell.readout(nodes).detach(), step)
        _expect(self.halting, "halting", willing, exists.shape[:1])
        if willing.dtype != torch.bool:
            kind = type(self.halting).__name__
            raise ContractError(f"halting {kind} returned {willing.dtype}; it must return bools", "halting")
        return willing

    def neighbours(self, exists: Tensor, *, hard: bool = False) -> tuple[Tensor, Tensor]:
        edge = self._offset  # START and END exist for sure, and are not shown
        row = pad(exists.unsqueeze(0), (edge, edge), value=1.0)  # [1, N]
        if hard:
            left, right = nearest_present(row[0] > 0.5)
        else:
            near = self.retriever(row, torch.ones_like(row, dtype=torch.bool))
            identity = torch.eye(row.shape[1], dtype=row.dtype, device=row.device).unsqueeze(0)
            left, right = near.left(identity)[0], near.right(identity)[0]  # of unit vectors: p_ij [N, N]
        inner = slice(edge, edge + len(exists))
        return left[inner, inner], right[inner, inner]

    def step_limit(self, length: int) -> int:
        return self.budget(length)

    def budget(self, length: int) -> int:
        """The most steps that a sequence of so many tokens may take."""
        limits = [length - 1 + self.extra_steps, self.max_steps or None, self.halting.limit]
        return min(limit for limit in limits if limit is not None)

    @property
    def _offset(self) -> int:
        return 0 if self.start is None else 1


#: Leaving positions out costs a little copying, so it is done when at most this part of them is left.
_WORTH = 0.9


def _advance(compose: Tensor, near: Neighbourhood, state: State) -> tuple[Tensor, Tensor, Tensor]:
    """c where it may be, left(c), and what exists then: e (1 - c) [B, N]."""
    if isinstance(near, Along):  # then what exists is for kernels, and c is of its type
        return near.advance(compose, state.exists, state.eligible, state.tokens)
    compose = compose * state.eligible
    gained = near.left(compose) * state.tokens
    return compose, gained, torch.addcmul(state.exists, state.exists, compose, value=-1)


def _above(tolerance: float, gained: Tensor, exists: Tensor) -> Tensor:
    """The places [m], counted through all sequences, where left(c) times what exists is above a tolerance."""
    if (kernels := ready(gained, exists)) is not None:
        found: Tensor = kernels.changing(gained.contiguous(), exists.contiguous(), tolerance)
        return found
    return (gained * exists > tolerance).flatten().nonzero().squeeze(1)


def _pick(one: Tensor, two: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [m, s] of two tensors [B, N, s] at the same places [m], counted through all sequences."""
    if (kernels := ready(one, two)) is not None:
        found: tuple[Tensor, Tensor] = kernels.pick(one.contiguous(), two.contiguous(), where)
        return found
    return one.flatten(0, 1).index_select(0, where), two.flatten(0, 1).index_select(0, where)


def _blend(nodes: Tensor, parents: Tensor, gained: Tensor) -> Tensor:
    """Parents in the measure of left(c), nodes in the rest."""
    if (kernels := ready(nodes, parents, gained)) is not None:
        found: Tensor = kernels.blend(nodes.contiguous(), parents.contiguous(), gained.contiguous(), None)
        return found
    return torch.lerp(nodes, parents, gained.to(nodes.dtype).unsqueeze(-1))


def _blend_some(nodes: Tensor, own: Tensor, parents: Tensor, gained: Tensor, where: Tensor) -> Tensor:
    """The same where there are parents [m, s] only of those nodes that stand at some places; ``own`` are these."""
    if (kernels := ready(nodes, parents, gained)) is not None:
        found: Tensor = kernels.blend(nodes.contiguous(), parents.contiguous(), gained.contiguous(), where)
        return found
    share = gained.flatten().index_select(0, where).to(nodes.dtype).unsqueeze(-1)
    mixed = torch.lerp(own, parents, share)
    return nodes.flatten(0, 1).index_copy(0, where, mixed).view_as(nodes)


def looking_is_free(values: Tensor) -> bool:
    """Whether the host can look at a tensor without waiting for a device."""
    return values.device.type == "cpu"


@define
class Finished:
    """Takes sequences out of the batch as they halt, and puts the results back in order at the end."""

    engine: Recursion
    rows: list[Tensor] = field(factory=list)
    nodes: list[Tensor] = field(factory=list)
    penalties: list[Tensor] = field(factory=list)
    steps: list[Tensor] = field(factory=list)

    def retire(self, state: State) -> State | None:
        """Keep the results of sequences that are done; the state of the others, or ``None``."""
        found = state.outlook or self.engine.look(state)
        done = sorted(set(range(len(state.lengths))) - set(found.going))
        for halted in (True, False):
            leaving = [i for i in done if found.willing[i] != halted]
            if leaving:
                self.collect(state, leaving, halted)
        if not found.going:
            return None
        left, n = [found.sizes[i] for i in found.going], found.staying.shape[1]
        whole = not any(found.unsure[i] for i in found.going)  # then everything else must leave
        if done or (min(left) < n if whole else max(left) < _WORTH * n):
            state = state.narrow(found.going, found.staying, max(left))
        state.whole = whole
        return state

    def collect(self, state: State, leaving: list[int], halted: bool) -> None:
        """Keep the results of these sequences."""
        index = torch.tensor(leaving, device=state.nodes.device)
        rows, last = state.rows.index_select(0, index), state.last().index_select(0, index)
        self.rows.append(rows)
        self.nodes.append(state.nodes[index, last])
        self.steps.append(torch.full_like(rows, state.step))
        if self.engine.halt_penalty and not (halted and self.engine.penalise == "unhalted"):
            exists = state.exists.index_select(0, index)
            remaining = (exists * state.tokens.index_select(0, index)).sum(1)
            ending = exists.gather(1, last.unsqueeze(1)).squeeze(1)
            self.penalties.append(-self.engine.halt_penalty * torch.log(ending / remaining))
        else:
            self.penalties.append(state.exists.new_zeros(len(rows)))

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
