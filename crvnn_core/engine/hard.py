"""Composition along decisions that are 0 or 1: n - 1 compositions of n tokens, along one tree for each sequence.

``encode_hard`` decides by the composition probabilities, ``encode_along`` by given trees, ``encode_sampled`` at random.
A tree is described by the *level* of each of its tokens: the step, from 1, in which the token, with all that has joined
it, joins its right neighbour. The last token and padding have level 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.checks import expect_shape
from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations.joins import join
from crvnn_core.engine.operations.rows import flagged_rows, put_parents, take_children
from crvnn_core.engine.state import Results, State
from crvnn_core.engine.trace import Recorder
from crvnn_core.errors import InputError
from crvnn_core.interfaces import Encoding

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion

_LEAST_LIKELIHOOD = 1e-6  # of a decision: below it the loss is constant, so that no gradient is infinite


@torch.inference_mode()
def encode_hard(engine: Recursion, inputs: Tensor, mask: Tensor, trace: bool) -> Encoding:
    """Encode along the likeliest joins.

    A position joins its right neighbour when by then it has more likely been composed than not. Of neighbours that
    would do so in the same step the left one goes first. When a sequence halts, or its steps run out, what is left
    of it joins from left to right. Here ``state.exists`` is the probability of not having been composed yet.
    """
    state = _begin(engine, inputs, mask)
    return _composed(engine, state, mask, _Likeliest(engine, state), trace)


def encode_along(engine: Recursion, inputs: Tensor, mask: Tensor, levels: Tensor, trace: bool) -> Encoding:
    """Encode along the trees that ``levels`` [B, n] describe, with the likelihood of the decisions that build them.

    Besides the lengths, the host reads from the device once: the levels.
    """
    state = _begin(engine, inputs, mask)
    _expect_long(levels, mask, "levels", ", one for each token and 0 at padding")
    given = _Given(engine, state, levels[:, : max(state.lengths)])
    encoding = _composed(engine, state, mask, given, trace)
    # A token of level k is decided on in k steps, and is gone after them.
    encoding.decision_loss = given.surprise / levels.sum(1).clamp(min=1)
    return encoding


@torch.no_grad()
def encode_sampled(
    engine: Recursion, inputs: Tensor, mask: Tensor, noise: float, cohesion: Tensor | None = None
) -> Encoding:
    """Encode along one tree for each sequence, drawn with Gumbel noise on the scores of every step.

    A position joins its right neighbour if its likelihood under the noisy scores is above 0.5, or the highest of its
    sequence; of neighbours that would join in the same step only the leftmost does. With ``cohesion`` [B, n] no pair
    joins while one of its nodes has a higher cohesion with its neighbour on the other side. The levels of the result
    are those of a tree in which every pair joins as soon as both its nodes are complete.
    """
    state = _begin(engine, inputs, mask)
    if cohesion is not None:
        _expect_long(cohesion, mask, "cohesion", ", one for each token")
    sampled = _Sampled(engine, mask, noise, cohesion)
    encoding = _composed(engine, state, mask, sampled, trace=False)
    encoding.levels = sampled.levels
    return encoding


class _Choice(ABC):
    """Says, step by step, which positions join their right neighbour."""

    @abstractmethod
    def decisions(self, state: State) -> tuple[Tensor, Tensor]:
        """For the operation ``join``: c [B, N], and which sequences are closing [B]."""

    def made(self, joins: Tensor, rows: Sequence[int], step: int) -> list[int]:
        """How many pairs of each sequence join; the host reads that from the device, once a step.

        :param rows: the places of the sequences in the batch as it was given.
        """
        found: list[int] = joins.sum(1).tolist()
        return found

    def joined(self, state: State, exists: Tensor, rows: Tensor) -> None:
        """Take note of a step: its state after it, which tokens are left [B, N], and the rows [m] that joined."""
        return


def _composed(engine: Recursion, state: State, mask: Tensor, choice: _Choice, trace: bool) -> Encoding:
    """Compose what is chosen until one node is left of each sequence; sequences leave the batch as they are done."""
    results = Results(penalty=0.0, unhalted_only=False)  # one node is left of every sequence
    recorder = Recorder(mask, state.exists.dtype) if trace else None
    tokens, rows, kept = list(state.lengths), list(range(len(state.lengths))), state.present
    while True:
        done = [i for i, count in enumerate(tokens) if count == 1]
        if done:
            results.add(state, done, halted=True)
        active = [i for i, count in enumerate(tokens) if count > 1]
        if not active:
            return results.encoding(engine.cell.readout, recorder)
        tokens, rows = [tokens[i] for i in active], [rows[i] for i in active]
        if state.step or done:
            state = state.compacted(active, kept, max(tokens) + 2 * state.edge)
        c, closing = choice.decisions(state)
        remaining, joins, receives, kept, exists = join(
            c, state.exists, state.eligible, state.tokens, state.present, closing
        )
        made = choice.made(joins, rows, state.step)
        joining = flagged_rows(joins, sum(made))
        left, right, nodes = take_children(state.nodes, joining)
        nodes = put_parents(nodes, engine.compose(left, right), joining)  # without gradients, in place
        state = state.next(nodes, remaining, receives)
        choice.joined(state, exists, joining)
        if recorder is not None:
            recorder.record(state, joins, exists)
        tokens = [count - joined for count, joined in zip(tokens, made, strict=True)]


def _begin(engine: Recursion, inputs: Tensor, mask: Tensor) -> State:
    """The state before the first step, whose leaves nothing else holds where ``put_parents`` changes them."""
    state = engine.begin(inputs, mask)
    if not torch.is_grad_enabled():  # a leaf transform may return a parameter, or something that it keeps
        state.nodes = state.nodes.clone()
    return state


class _Likeliest(_Choice):
    """Hard inference: decides by c, until a sequence halts or its steps run out."""

    def __init__(self, engine: Recursion, state: State) -> None:
        self.engine = engine
        #: [B] the steps after which what is left joins from left to right; 0 for what has halted
        self.limits = engine.step_limits(state.tokens.sum(1))

    def decisions(self, state: State) -> tuple[Tensor, Tensor]:
        there = state.present.to(state.exists.dtype)  # every position that is left exists
        c = self.engine.decide(state, adjacent(state.present, there), there)
        return c, self.limits.index_select(0, state.batch_index) <= state.step

    def joined(self, state: State, exists: Tensor, rows: Tensor) -> None:
        more, state.halting = self.engine.wants_more(exists, state.nodes, state.step, state.halting)
        self.limits[state.batch_index] *= more


class _Given(_Choice):
    """Decides by the levels [B, n] of given trees, and adds up the negative log-likelihood of each one's decisions."""

    def __init__(self, engine: Recursion, state: State, levels: Tensor) -> None:
        self.engine, self.levels = engine, levels
        self.counts = _joins_by_level(levels, state.lengths)
        self.surprise = state.exists.new_zeros(len(levels))

    def decisions(self, state: State) -> tuple[Tensor, Tensor]:
        joins = state.eligible & (_at_places(self.levels, state) == state.step + 1)
        c = _likelihood(self.engine, state)
        likelihood = torch.where(joins, c, 1 - c).clamp(min=_LEAST_LIKELIHOOD)
        surprise = -(torch.log(likelihood) * state.eligible).sum(1)
        self.surprise = self.surprise.index_add(0, state.batch_index, surprise)
        return _as_decisions(joins, state)

    def made(self, joins: Tensor, rows: Sequence[int], step: int) -> list[int]:
        """Known from the levels."""
        return [self.counts[row][step + 1] for row in rows]


class _Sampled(_Choice):
    """Decides at random, and keeps the levels of the trees."""

    def __init__(self, engine: Recursion, mask: Tensor, noise: float, cohesion: Tensor | None) -> None:
        self.engine, self.noise, self.cohesion = engine, noise, cohesion
        self.levels = torch.zeros_like(mask, dtype=torch.long)
        self.heights = torch.zeros_like(self.levels)  # of the node that ends at each token

    def decisions(self, state: State) -> tuple[Tensor, Tensor]:
        c, allowed = _likelihood(self.engine, state, self.noise), self._may_join(state)
        highest = torch.where(allowed, c, -1).argmax(1, keepdim=True)
        return _as_decisions((c > 0.5).scatter(1, highest, True) & allowed, state)

    def _may_join(self, state: State) -> Tensor:
        """Which positions may join their right neighbour [B, N]; the highest cohesion of a sequence always may."""
        if self.cohesion is None:
            return state.eligible
        lowest = torch.iinfo(torch.long).min
        # Of each node with its right neighbour, with its left one, and of that neighbour with the next:
        behind = torch.where(state.eligible, _at_places(self.cohesion, state), lowest)
        before, after = pad(behind[:, :-1], (1, 0), value=lowest), pad(behind[:, 1:], (0, 1), value=lowest)
        return state.eligible & (behind >= before) & (behind >= after)

    def joined(self, state: State, exists: Tensor, rows: Tensor) -> None:
        batch = state.batch_index[rows // state.place.shape[1]]
        place = state.place.flatten()
        left, right = place[rows], place[rows + 1]
        height = torch.maximum(self.heights[batch, left], self.heights[batch, right]) + 1
        self.levels[batch, left] = height
        self.heights[batch, right] = height


def _as_decisions(joins: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """These joins [B, N] as c, in sequences none of which is closing."""
    return joins.to(state.exists.dtype), torch.zeros_like(state.batch_index, dtype=torch.bool)


def _likelihood(engine: Recursion, state: State, noise: float = 0.0) -> Tensor:
    """The likelihood [B, N] of joining the right neighbour, from the scores and Gumbel noise times ``noise``."""
    near = adjacent(state.present, there := state.present.to(state.exists.dtype))
    scores = engine.score(state, near)
    if noise:
        uniform = torch.rand_like(scores).clamp(1e-9, 1 - 1e-7)
        scores = scores - noise * torch.log(-torch.log(uniform))
    c = engine.decision.likelihood(scores, near, state.eligible, there)
    expect_shape(engine.decision, "likelihood of decision", c, state.exists.shape)
    return c.to(state.exists.dtype)


def _at_places(values: Tensor, state: State) -> Tensor:
    """The value [B, n] of each position's last token [B, N]; for START, END and padding that of some token."""
    places = state.place.clamp(0, values.shape[1] - 1)
    return values.index_select(0, state.batch_index).gather(1, places)


def _joins_by_level(levels: Tensor, lengths: Sequence[int]) -> list[Counter[int]]:
    """How many pairs of each sequence join on each level."""
    counts = []
    for row, (found, length) in enumerate(zip(levels.tolist(), lengths, strict=True)):
        joining, rest = found[: length - 1], found[length - 1 :]
        if any(rest) or min(joining, default=1) < 1 or _neighbours_join_at_once(joining):
            raise InputError(
                f"the levels of sequence {row} describe no tree: {found[:length]}. They are above 0, but 0 at the last "
                "token and at padding; a token and its right neighbour cannot join theirs in the same step"
            )
        counts.append(Counter(joining))
    return counts


def _neighbours_join_at_once(levels: list[int]) -> bool:
    """Whether two tokens have the same level and all between them a lower one, so that they are neighbours by then."""
    higher: list[int] = []  # levels of tokens to the left that are still there, falling
    for level in levels:
        while higher and higher[-1] < level:
            higher.pop()
        if higher and higher[-1] == level:
            return True
        higher.append(level)
    return False


def _expect_long(values: Tensor, mask: Tensor, name: str, purpose: str) -> None:
    """Refuse what is not one integer for each token [B, n]."""
    if values.shape != mask.shape or values.dtype != torch.long:
        raise InputError(
            f"{name} must be integers (torch.long) {list(mask.shape)}{purpose}; "
            f"got {values.dtype} {list(values.shape)}"
        )
