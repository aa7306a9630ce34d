"""Which sequences stay active, which positions are kept, and where the cell need not run.

Sequences leave the batch when they halt. Positions leave their sequence when they no longer exist, and the cell is run
only where it changes a node that still matters; by default both are exact. A step in which every decision is 0 or 1
records no graph of the decisions (docs/explanation/recursion.md).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crvnn_core.engine.operations.blend import blend_at
from crvnn_core.engine.operations.compaction import survey
from crvnn_core.engine.operations.rows import changed_rows, put_parents, rows_at, take_children
from crvnn_core.engine.operations.transition import transition
from crvnn_core.engine.state import Results, State, kept_within
from crvnn_core.engine.trace import Recorder
from crvnn_core.interfaces import Encoding
from crvnn_core.precision import autocasting

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion

#: Compacting positions, and selecting rows for the cell by their values, is worth its copies when at most this share
#: is left.
WORTH = 0.9
#: The same for rows that are known from the masks alone: then nothing has to be counted in every step.
WORTH_OF_MASKS = 0.97


@dataclass(eq=False)
class StepPlan:
    """What follows a step, known on the host: which of B sequences are still active, and what is kept of each."""

    kept: Tensor  # [B, N] bool
    more: list[bool]  # whether the halting wants another step
    active: list[int]  # the sequences that take one, as their steps have not run out either
    sizes: list[int]  # how many positions are kept
    uncertain: list[int]  # how many of these may have e < 1
    halting: tuple[Tensor, ...] = ()  # the state of the halting after the step


class ActiveSequences:
    """The sequences of one forward pass that have not halted; results of the others."""

    def __init__(self, engine: Recursion) -> None:
        self.engine = engine
        self.results = Results(engine.halt_penalty, engine.penalise == "unhalted")
        #: What the settings allow, asked once for all steps.
        self._drops, self._saturates = may_drop(engine), uses_exact_zeros(engine)
        self._skips, self._joins = may_skip(engine, engine.skip), may_join(engine)
        self._limit = functools.cache(engine.step_limit)
        #: Whether a step has recorded a graph of its decisions; whether one has not.
        self._recorded = self._unrecorded = False
        #: What follows a step, by its number, from when it is known until the step is over; with activation
        #: checkpointing to the end, so that a step is recomputed without asking the halting again.
        self._plans: dict[int, StepPlan] = {}
        #: ``state.tokens`` and the rows of it that receive, until positions or sequences leave.
        self._receiving: tuple[Tensor, Tensor] | None = None

    def update(self, state: State, h: Tensor, left_c: Tensor, exists: Tensor) -> Tensor:
        """The nodes after a step, as ``Recursion.update`` makes them, with the cell run only where it matters.

        ``exists`` is e after the step. A halting that needs no vectors is called here, before the nodes are made: when
        all sequences are done, only the nodes of last tokens are needed.
        """
        step, self._recorded = state.step + 1, True
        if not self.engine.halting.needs_vectors and step not in self._plans:
            self._plans[step] = self._plan_after(state, step, exists, state.nodes)
        rows = self._rows(state, left_c, exists)
        if rows is None:
            return self.engine.update(state, h, left_c, exists)
        children, own = rows_at(h, state.nodes, rows)
        return blend_at(state.nodes, own, self.engine.compose(children, own), left_c, rows)

    def saturated_step(self, state: State) -> tuple[Tensor, State] | None:
        """A step in which every decision is exactly 0 or 1: parents of adjacent nodes, as in hard inference.

        Such decisions have no gradient, so no graph of them is recorded. ``None`` where one is not saturated, or where
        not everything exists: then the step is to be taken with a graph, from the same random state.
        """
        engine, step = self.engine, state.step + 1
        if not (self._joins and state.all_exist and host_sees(state.exists)):
            return None
        random = torch.get_rng_state() if engine.training else None  # of dropout, and of noise on the scores
        with torch.no_grad():
            near = engine.retrieve(state)
            c = engine.decide(state, near, state.exists)
            c, left_c, exists = transition(c, near, state.exists, state.eligible, state.tokens)
            plan = self._plan_after(state, step, exists, state.nodes)
        if any(plan.uncertain) or not torch.equal(c * c, c):  # 1 - c may be 1 for a tiny c
            if random is not None:
                torch.set_rng_state(random)
            return None
        self._plans[step], self._unrecorded = plan, True
        # The scorer has seen the nodes, and they may be those of the leaves, which without gradients are not to change.
        nodes = state.nodes if torch.is_grad_enabled() else state.nodes.clone()
        joining = changed_rows(left_c, exists, 0.0) - 1
        left, right, nodes = take_children(nodes, joining)
        nodes = put_parents(nodes, engine.compose(left, right), joining)
        return c, state.next(nodes, exists, left_c)

    def encoding(self, recorder: Recorder | None) -> Encoding:
        """The results of all sequences.

        Where all steps were saturated, the parameters of scorer and decision have a gradient of 0, as they would have
        with a graph: optimizers leave alone what has none.
        """
        found = self.results.encoding(self.engine.cell.readout, recorder)
        if self._unrecorded and not self._recorded and torch.is_grad_enabled():
            parts = (self.engine.scorer, self.engine.decision)
            parameters = [own for part in parts for own in part.parameters() if own.requires_grad]
            if parameters:
                # 0, with a gradient of 0.
                nothing = torch.cat([own.flatten()[:0] for own in parameters]).sum()
                found.vector = found.vector + nothing.to(found.vector.dtype)
                found.penalty = found.penalty + nothing.to(found.penalty.dtype)
        return found

    def retire(self, state: State) -> State | None:
        """Keep the results of sequences that are done; the state of the active ones, or ``None``."""
        plan = self._plans.get(state.step)
        if plan is None:
            plan = self._plan_after(state, state.step, state.exists, state.nodes)
        if not self.engine.checkpoint:
            self._plans.clear()
        done = sorted(set(range(len(state.lengths))) - set(plan.active))
        for halted in (True, False):
            leaving = [i for i in done if plan.more[i] != halted]
            if leaving:
                self.results.add(state, leaving, halted)
        if not plan.active:
            return None
        state.halting = plan.halting
        sizes, n = [plan.sizes[i] for i in plan.active], plan.kept.shape[1]
        all_exist = not any(plan.uncertain[i] for i in plan.active)
        # Where everything exists, neighbours are those next to a position, so whatever has e = 0 must go.
        worthwhile = state.step > 0 and (min(sizes) < n if all_exist else max(sizes) < WORTH * n)
        if done or worthwhile:
            state = state.compacted(plan.active, plan.kept, max(sizes))
        state.all_exist = all_exist
        return state

    def _plan_after(self, state: State, step: int, exists: Tensor, nodes: Tensor) -> StepPlan:
        """What follows a step. Here alone the loop reads from the device, and so makes the host wait for it."""
        engine = self.engine
        sizes = [length + 2 * state.edge for length in state.lengths]
        more, uncertain, kept = [True] * len(sizes), sizes if step else [0] * len(sizes), state.present
        halting = state.halting
        if step and not nodes.is_meta:
            wanted, halting = engine.wants_more(exists.detach() * state.tokens, nodes, step, halting)
            if self._drops or self._saturates:
                kept, facts = self._survey(state, wanted, exists)
                answers, sizes, uncertain = facts.tolist()
                more = [bool(answer) for answer in answers]
            else:
                more = wanted.tolist()
        active = [i for i, go in enumerate(more) if go and step < self._limit(state.lengths[i])]
        return StepPlan(kept, more, active, sizes, uncertain, halting)

    def _survey(self, state: State, wanted: Tensor, exists: Tensor) -> tuple[Tensor, Tensor]:
        """The kept positions [B, N]; and per sequence the halting's answer, how many are kept, how many may have
        e < 1 [3, B]."""
        if self._drops and self._saturates and self.engine.drop == 0:
            return survey(wanted, exists, state.present, state.eligible)
        kept = kept_within(self.engine.drop, state, exists) if self._drops else state.present
        uncertain = kept & (exists != 1) if self._saturates else kept
        return kept, torch.stack([wanted.long(), kept.sum(1), uncertain.sum(1)])

    def _rows(self, state: State, left_c: Tensor, exists: Tensor) -> Tensor | None:
        """The rows [m] whose nodes change and still matter; ``None`` for all.

        Counting them makes the host wait for the device, so that is done only where it costs nothing.
        """
        plan = self._plans.get(state.step + 1)
        if self.engine.shortcuts and plan is not None and not plan.active:
            return state.last() + torch.arange(0, left_c.numel(), left_c.shape[1], device=left_c.device)
        if not (self.engine.shortcuts and host_sees(left_c)):
            return None
        if self._skips:
            rows = changed_rows(left_c.detach(), exists.detach(), self.engine.skip)
            return rows if len(rows) < WORTH * left_c.numel() else None
        rows = self._receiving_rows(state, plan)
        return rows if len(rows) < WORTH_OF_MASKS * left_c.numel() else None

    def _receiving_rows(self, state: State, plan: StepPlan | None) -> Tensor:
        """The rows [m] of tokens behind the first one; of sequences that are done after this step, the last token.

        START, END, padding and the first token never change: whatever is to their left has c = 0.
        """
        if plan is not None and len(plan.active) < len(state.lengths):
            active = torch.zeros(len(state.lengths), 1, dtype=torch.bool)
            active[plan.active] = True
            receiving = (state.tokens & (state.place > 0)) & active
            receiving[torch.arange(len(receiving)), state.last()] = True
            return receiving.flatten().nonzero().squeeze(1)
        if self._receiving is None or self._receiving[0] is not state.tokens:
            rows = (state.tokens & (state.place > 0)).flatten().nonzero().squeeze(1)
            self._receiving = state.tokens, rows
        return self._receiving[1]


def uses_exact_zeros(engine: Recursion) -> bool:
    """Whether decisions can be exactly 0 or 1, and have no gradient there that would be missed."""
    exact = engine.shortcuts and engine.decision.can_saturate
    return exact and (engine.decision.gradient_vanishes or not torch.is_grad_enabled())


def may_skip(engine: Recursion, tolerance: float) -> bool:
    """Whether contributions at or below a tolerance can occur and may be skipped: not where they have a gradient."""
    some = engine.shortcuts and (tolerance > 0 or (tolerance == 0 and engine.decision.can_saturate))
    return some and (engine.decision.gradient_vanishes or not torch.is_grad_enabled())


def may_drop(engine: Recursion) -> bool:
    """Whether positions that no longer exist may leave: not where a retriever counts positions."""
    return engine.retriever.reach is None and may_skip(engine, engine.drop)


def may_join(engine: Recursion) -> bool:
    """Whether a step of saturated decisions may join adjacent nodes: where such steps are exact, and their positions
    and halting are known before the nodes are. Some versions of torch reuse weights that autocast has cast without
    gradients, so not there."""
    exact = engine.skip == engine.drop == 0 and uses_exact_zeros(engine) and may_drop(engine)
    return exact and not (engine.halting.needs_vectors or engine.checkpoint or autocasting("cpu"))


def host_sees(values: Tensor) -> bool:
    """Whether the host can look at a tensor without waiting for a device."""
    return values.device.type == "cpu"
