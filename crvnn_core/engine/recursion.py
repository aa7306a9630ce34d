"""Continuous recursion (Algorithm 1 of the paper) over parts that are given to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from crvnn_core.annotations import CountOrZero, Range, Weight, check_ranges
from crvnn_core.engine.checkpointing import checkpointed
from crvnn_core.engine.checks import checked_halting, checked_lengths, expect_neighbourhood, expect_shape
from crvnn_core.engine.hard import encode_along, encode_hard, encode_sampled
from crvnn_core.engine.mirror import mirrored_gaps, mirrored_tokens
from crvnn_core.engine.neighbourhoods import CachedNeighbourhood, adjacent, nearest_present
from crvnn_core.engine.operations.blend import blend
from crvnn_core.engine.operations.transition import transition
from crvnn_core.engine.shortcuts import ActiveSequences
from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.engine.traceable import TraceableHard, TraceableRecursion, TraceableSoft, uncompiled
from crvnn_core.errors import CrvnnError
from crvnn_core.interfaces import (
    Cell,
    Decision,
    Encoder,
    Encoding,
    Halting,
    Neighbourhood,
    Retriever,
    Scorer,
    StatefulHalting,
)
from crvnn_core.kernels import fixed_weights
from crvnn_core.precision import at_least_float32, autocasting

_MOST_SCORE = 1e6  # sums and differences of scores stay finite


class Update(Protocol):
    """Makes the nodes after a step, from the state before it, h, left(c), and e after it."""

    def __call__(self, state: State, h: Tensor, left_c: Tensor, exists: Tensor) -> Tensor: ...


class Recursion(Encoder):
    """Composes neighbours step by step, softly and in parallel, until one node is left of each sequence.

    :param boundaries: put trainable START and END vectors around every sequence.
    :param mirrored: read every sequence from its last token: a parent takes the place of its left child, not of its
        right one. Trees and traces are those of the sequence as it was given.
    :param halt_penalty: weight of the penalty on what still exists beside the last token; 0 switches it off.
    :param penalise: charge it to ``all`` sequences, or only to those ``unhalted`` when their steps ran out.
    :param max_steps: take at most this many steps; 0 for no such limit.
    :param extra_steps: a sequence of n tokens takes at most n - 1 steps, and these in addition.
    :param shortcuts: drop positions that no longer exist, and run the cell only where it changes something; false to
        compute everything to the end.
    :param drop: how much existence may be lost between two positions that are kept; 0 for none, which is exact.
    :param skip: the cell is skipped where left(c) times existence is at most this; 0 is exact.
    :param checkpoint: activation checkpointing: keep only the state of each step and recompute the rest in the
        backward pass.
    """

    hard_inference = True
    tree_supervision = True
    live_settings = ("max_steps", "extra_steps", "shortcuts", "drop", "skip")

    @check_ranges
    def __init__(
        self,
        width: int,
        retriever: Retriever,
        scorer: Scorer,
        decision: Decision,
        cell: Cell,
        halting: Halting,
        boundaries: bool = True,
        mirrored: bool = False,
        halt_penalty: Weight = 0.01,
        penalise: Literal["all", "unhalted"] = "all",
        max_steps: CountOrZero = 0,
        extra_steps: CountOrZero = 0,
        shortcuts: bool = True,
        drop: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        skip: Annotated[float, Range(ge=0, lt=1)] = 0.0,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(width)
        self.retriever, self.scorer, self.decision = retriever, scorer, decision
        self.cell, self.halting = cell, halting
        self.mirrored = mirrored
        self.halt_penalty, self.penalise = halt_penalty, penalise
        self.max_steps, self.extra_steps = max_steps, extra_steps
        self.shortcuts, self.drop, self.skip, self.checkpoint = shortcuts, drop, skip, checkpoint
        self.start = nn.Parameter(torch.randn(width)) if boundaries else None
        self.end = nn.Parameter(torch.randn(width)) if boundaries else None

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor,
        *,
        trace: bool = False,
        hard: bool = False,
        levels: Tensor | None = None,
    ) -> Encoding:
        if torch.compiler.is_dynamo_compiling():  # of torch.compile: the loop runs outside of its graph
            return uncompiled()(self, inputs, mask, trace=trace, hard=hard, levels=levels)
        with fixed_weights():
            if levels is not None:
                encoding = encode_along(self, inputs, mask, self.turned(levels, mask), trace)
            elif hard:
                encoding = encode_hard(self, inputs, mask, trace)
            else:
                encoding = self.encode(inputs, mask, trace)
        if (found := encoding.trace) is not None:
            found.compose, found.exists = self.turned(found.compose, mask), self.turned(found.exists, mask)
        return encoding

    def sample(self, inputs: Tensor, mask: Tensor, noise: float, cohesion: Tensor | None = None) -> Encoding:
        with fixed_weights():
            limits = None if cohesion is None else self.turned(cohesion, mask)
            encoding = encode_sampled(self, inputs, mask, noise, limits)
        assert encoding.levels is not None
        encoding.levels = self.turned(encoding.levels, mask)
        return encoding

    def turned(self, values: Tensor, mask: Tensor) -> Tensor:
        """Values of tokens [..., B, n] in the direction of the recursion, or back: of the gap behind each token."""
        return mirrored_gaps(values, mask) if self.mirrored and values.shape[-2:] == mask.shape else values

    def traceable(self, *, hard: bool = False, depth: int | None = None) -> TraceableRecursion:
        if hard and depth is not None:
            raise CrvnnError(
                "hard inference of n tokens takes up to n - 1 steps, so its depth cannot be fixed"
            )
        return TraceableHard(self) if hard else TraceableSoft(self, depth)

    def encode(self, inputs: Tensor, mask: Tensor, trace: bool) -> Encoding:
        """Algorithm 1. Sequences leave the batch as they halt."""
        begin = self.begin(inputs, mask)  # r <- leafTransform(x), e <- 1
        sequences = ActiveSequences(self)
        recorder = Recorder(mask, begin.exists.dtype) if trace else None
        step = checkpointed(self.step) if self.checkpoint else self.step
        state = sequences.retire(begin)  # a single token has nothing to compose
        while state is not None:  # for k = 1 to n - 1
            c, after = sequences.saturated_step(state) or step(state, sequences.update)
            if recorder is not None:
                recorder.record(after, c, after.exists)
            state = sequences.retire(after)  # if dynamicHalt(e'): break
        return sequences.encoding(recorder)

    def step(self, state: State, update: Update | None = None) -> tuple[Tensor, State]:
        """One iteration of Algorithm 1: from r and e of step k, in ``state``, to c and to r' and e' of step k + 1.

        :param update: makes r' from h, alpha and e'; by default at every position.
        """
        near = self.retrieve(state)  # left and right, by Eq. 5 or 6
        c = self.decide(state, near, state.exists)  # c <- decisionFunction(r)
        # alpha <- left(c); and e' <- e (1 - c) already here: it says which rows of r' still matter
        c, alpha, e_next = transition(c, near, state.exists, state.eligible, state.tokens)
        h = near.left(state.nodes)  # h <- left(r)
        r_next = (update or self.update)(state, h, alpha, e_next)  # r' <- alpha compose(h, r) + (1 - alpha) r
        return c, state.next(r_next, e_next, alpha)

    def update(self, state: State, h: Tensor, left_c: Tensor, exists: Tensor) -> Tensor:
        """r' = alpha compose(h, r) + (1 - alpha) r with alpha = left(c), at every position [B, N, s]."""
        return blend(state.nodes, self.compose(h, state.nodes), left_c)

    def retrieve(self, state: State) -> Neighbourhood:
        """The neighbours of every position; where everything exists, those next to it."""
        if state.all_exist and self.shortcuts:
            return adjacent(state.present, state.exists)
        near = expect_neighbourhood(self.retriever, self.retriever(state.exists, state.present))
        return near if near.caches else CachedNeighbourhood(near)

    def decide(self, state: State, near: Neighbourhood, exists: Tensor) -> Tensor:
        """The composition probabilities c [B, N]: the scores u of all positions, and the decision on them.

        :param exists: [B, N] the existence that the decision is given.
        """
        c = self.decision(self.score(state, near), near, state.eligible, exists)
        expect_shape(self.decision, "decision", c, state.exists.shape)
        return c.to(state.exists.dtype)

    def score(self, state: State, near: Neighbourhood) -> Tensor:
        """The scores u [B, N] of all positions; beyond a million, where every decision is saturated, a million."""
        u = self.scorer(self.cell.readout(state.nodes), near, state.left_c)
        expect_shape(self.scorer, "scorer", u, state.exists.shape)
        return u.to(state.exists.dtype).clamp(-_MOST_SCORE, _MOST_SCORE)

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        """Parents of two children each [..., s]."""
        parent = self.cell(left, right)
        expect_shape(self.cell, "cell", parent, right.shape)
        return parent.to(right.dtype)

    def wants_more(
        self, exists: Tensor, nodes: Tensor, step: int | Tensor, state: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Which sequences have not halted after a step [B], and the next state of a halting that has one.

        :param exists: [B, N] the existence of their tokens; 0 at other positions.
        :param step: its number; in a graph for all lengths a tensor, with which one computes as with a number.
        """
        halting: Any = self.halting
        found = halting(exists.detach(), self._vectors(exists, nodes), step, *state)
        return checked_halting(halting, found, exists.shape[0], state)

    def _vectors(self, exists: Tensor, nodes: Tensor) -> Tensor:
        """The vectors [B, N, d] that a halting is given: 0 at whatever is no token or has e = 0, if it reads them."""
        vectors = self.cell.readout(nodes).detach()
        return vectors.masked_fill((exists == 0).unsqueeze(-1), 0) if self.halting.needs_vectors else vectors

    def step_limit(self, length: int) -> int:
        limits = [length - 1 + self.extra_steps, self.max_steps or None, self.halting.limit]
        return min(limit for limit in limits if limit is not None)

    def step_limits(self, lengths: Tensor) -> Tensor:
        """``step_limit`` of every sequence, as a tensor [B]."""
        limits = lengths - 1 + self.extra_steps
        for limit in (self.max_steps or None, self.halting.limit):
            limits = limits if limit is None else limits.clamp(max=limit)
        return limits

    def neighbours(self, exists: Tensor, *, hard: bool = False) -> tuple[Tensor, Tensor]:
        edge = self._edge  # START and END exist for sure, and are not shown
        row = pad(exists.unsqueeze(0), (edge, edge), value=1.0)  # [1, N]
        if hard:
            left, right = nearest_present(row[0] > 0.5)
        else:
            near = self.retriever(row, torch.ones_like(row, dtype=torch.bool))
            identity = torch.eye(row.shape[1], dtype=row.dtype, device=row.device).unsqueeze(0)
            left, right = near.left(identity)[0], near.right(identity)[0]  # of unit vectors: p_ij [N, N]
        inner = slice(edge, edge + len(exists))
        return left[inner, inner], right[inner, inner]

    def begin(self, inputs: Tensor, mask: Tensor) -> State:
        """The state before the first step: leaves, START and END, all of which exist."""
        dtype = next((parameter.dtype for parameter in self.parameters()), None)
        lengths = checked_lengths(inputs, mask, self.width, dtype)
        return self.initial_state(inputs[:, : max(lengths)], mask[:, : max(lengths)], tuple(lengths))

    def initial_state(self, inputs: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> State:
        """The same for a batch that can be encoded, whose ``lengths`` are known on the host."""
        if autocasting(inputs.device.type):
            inputs = at_least_float32(inputs)  # nodes change in many small steps
        inputs = inputs.masked_fill(~mask.unsqueeze(-1), 0)  # values under padding cannot matter
        inputs = mirrored_tokens(inputs, mask) if self.mirrored else inputs
        count = mask.sum(1, keepdim=True)  # [B, 1]
        inputs = self._with_boundaries(inputs, count)
        place = torch.arange(inputs.shape[1], device=inputs.device) - self._edge  # 0 at the first token
        nodes = self.cell.leaf(inputs)
        shape = (*inputs.shape[:2], self.cell.state_width)
        expect_shape(self.cell, "leaf transform of cell", nodes, shape)
        nodes = nodes.to(inputs.dtype)
        expect_shape(self.cell, "read-out of cell", self.cell.readout(nodes), inputs.shape)
        present = place < count + self._edge
        exists = at_least_float32(present.to(nodes.dtype))
        tokens = (place >= 0) & (place < count)
        return State(
            nodes=nodes,
            exists=exists,
            left_c=torch.zeros_like(exists),
            lost=torch.zeros_like(exists) if self.drop > 0 else None,
            present=present,
            tokens=tokens,
            eligible=(place >= 0) & (place < count - 1),
            place=place.expand_as(exists),
            batch_index=torch.arange(inputs.shape[0], device=inputs.device),
            edge=self._edge,
            lengths=lengths,
            halting=self._initial_state_of_halting(tokens, nodes),
        )

    def _initial_state_of_halting(self, tokens: Tensor, nodes: Tensor) -> tuple[Tensor, ...]:
        """Its state before the first step, in which every token exists; empty for a halting that has none."""
        if not isinstance(self.halting, StatefulHalting):
            return ()
        exists = at_least_float32(tokens.to(nodes.dtype))
        state = self.halting.initial_state(exists, self._vectors(exists, nodes))
        shape = (exists.shape[0], *getattr(state, "shape", ())[1:])
        expect_shape(self.halting, "initial state of halting", state, shape)
        return (state.detach(),)

    def _with_boundaries(self, inputs: Tensor, count: Tensor) -> Tensor:
        """The inputs with START before the first token of each sequence and END behind its last."""
        if self.start is None or self.end is None:
            return inputs
        blank = torch.zeros_like(inputs[:, :1])
        inputs = torch.cat([self.start.to(inputs.dtype).expand_as(blank), inputs, blank], 1)
        place = torch.arange(inputs.shape[1], device=inputs.device)
        return torch.where((place == count + 1).unsqueeze(-1), self.end.to(inputs.dtype), inputs)

    @property
    def _edge(self) -> int:
        """Positions before the first token, and behind the last: START and END, or none."""
        return 0 if self.start is None else 1
