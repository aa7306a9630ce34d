"""Composition along given trees, with the likelihood of the decisions that build them; and along sampled trees.

A tree is described by the *level* of each of its tokens: the step, from 1, in which the token, with all that has joined
it, joins its right neighbour. Every pair joins as soon as both its nodes are complete. The last token and padding have
level 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations import flagged_rows
from crvnn_core.engine.results import Results
from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.errors import InputError
from crvnn_core.interfaces import Encoding

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion

_LEAST = 1e-6  # probability: of what is less likely the logarithm is bounded


def encode_along(engine: Recursion, inputs: Tensor, mask: Tensor, levels: Tensor, trace: bool) -> Encoding:
    """Encode along the trees that ``levels`` [B, n] describe, with exactly n - 1 compositions of n tokens.

    The host reads from the device once: how many pairs join on each level.
    """
    state = engine.begin(inputs, mask)
    levels = _checked(levels, mask)[:, : max(state.lengths)]
    results = Results(penalty=0.0, unhalted_only=False)
    recorder = Recorder(mask, state.exists.dtype) if trace else None
    counts = _joins_by_level(levels)  # [B][levels + 1]
    depths = levels.amax(1).tolist()
    total = state.exists.new_zeros(len(depths))  # of the negative log-likelihood
    decisions = [0] * len(depths)
    rows, sizes = list(range(len(depths))), [length + 2 * state.edge for length in state.lengths]
    kept = state.present
    for level in range(1, max(depths) + 2):
        done = [i for i, row in enumerate(rows) if depths[row] == level - 1]
        if done:
            results.add(state, done, halted=True)
        active = [i for i, row in enumerate(rows) if depths[row] >= level]
        if not active:
            break
        rows, sizes = [rows[i] for i in active], [sizes[i] for i in active]
        if level > 1 or done:
            state = state.compacted(active, kept, max(sizes))
        joins = state.eligible & (_at_places(levels, state) == level)
        nll = _surprise(engine, state, joins)
        total = total.index_add(0, state.batch_index, nll)
        for row, size in zip(rows, sizes, strict=True):
            decisions[row] += size - 2 * state.edge - 1
        state = _joined(engine, state, joins, sum(counts[row][level] for row in rows))
        kept = state.present & ~joins
        if recorder is not None:
            recorder.record(state, joins, kept & state.tokens)
        sizes = [size - counts[row][level] for row, size in zip(rows, sizes, strict=True)]
    encoding = results.encoding(engine.cell.readout, recorder)
    encoding.decision_loss = total / torch.tensor(decisions, device=total.device).clamp(min=1)
    return encoding


@torch.no_grad()
def encode_sampled(engine: Recursion, inputs: Tensor, mask: Tensor, noise: float) -> Encoding:
    """Encode along one tree for each sequence, drawn with Gumbel noise on the scores of every step.

    A position joins its right neighbour when its decision on the noisy scores is above 0.5, or when it is the highest
    of its sequence; of two neighbours the left one does.
    """
    state = engine.begin(inputs, mask)
    results = Results(penalty=0.0, unhalted_only=False)
    levels = torch.zeros_like(mask, dtype=torch.long)
    heights = torch.zeros_like(levels)  # of the node that ends at each token
    sizes = [length + 2 * state.edge for length in state.lengths]
    kept = state.present
    while True:
        tokens = [size - 2 * state.edge for size in sizes]
        done = [i for i, count in enumerate(tokens) if count == 1]
        if done:
            results.add(state, done, halted=True)
        active = [i for i, count in enumerate(tokens) if count > 1]
        if not active:
            break
        sizes = [sizes[i] for i in active]
        if state.step or done:
            state = state.compacted(active, kept, max(sizes))
        joins = _sampled_joins(engine, state, noise)
        made = joins.sum(1).tolist()
        before, state = state, _joined(engine, state, joins, sum(made))
        _raise(levels, heights, before, flagged_rows(joins, sum(made)))
        kept = state.present & ~joins
        sizes = [size - joined for size, joined in zip(sizes, made, strict=True)]
    encoding = results.encoding(engine.cell.readout, None)
    encoding.levels = levels
    return encoding


def _sampled_joins(engine: Recursion, state: State, noise: float) -> Tensor:
    near = adjacent(state.present, there := state.present.to(state.exists.dtype))
    scores = engine.score(state, near)
    if noise:
        uniform = torch.rand_like(scores).clamp(1e-9, 1 - 1e-7)
        scores = scores - noise * torch.log(-torch.log(uniform))
    c = engine.decision.likelihood(scores, near, state.eligible, there) * state.eligible
    highest = torch.where(state.eligible, c, -1).argmax(1, keepdim=True)
    wishes = (c > 0.5).scatter(1, highest, True) & state.eligible
    return wishes & ~pad(wishes[:, :-1], (1, 0))


def _joined(engine: Recursion, state: State, joins: Tensor, made: int) -> State:
    """The state after these joins [B, N], ``made`` in all: each parent in place of its right child."""
    receives = pad(joins[:, :-1], (1, 0))
    flat = state.nodes.flatten(0, 1)
    rows = flagged_rows(receives, made)
    parents = engine.compose(flat.index_select(0, rows - 1), flat.index_select(0, rows))
    nodes = flat.index_copy(0, rows, parents).view_as(state.nodes)
    return state.next(nodes, state.exists, receives.to(state.exists.dtype))


def _surprise(engine: Recursion, state: State, joins: Tensor) -> Tensor:
    """The negative log-likelihood [B] of these decisions, summed over the positions that may decide."""
    near = adjacent(state.present, there := state.present.to(state.exists.dtype))
    c = engine.decision.likelihood(engine.score(state, near), near, state.eligible, there)
    likelihood = torch.where(joins, c, 1 - c).clamp(min=_LEAST)
    return -(torch.log(likelihood) * state.eligible).sum(1)


def _raise(levels: Tensor, heights: Tensor, state: State, rows: Tensor) -> None:
    """Note the joins of these rows [m] with those behind them: the level of each, and how high the parent is."""
    batch = state.batch_index[rows // state.place.shape[1]]
    place = state.place.flatten()
    left, right = place[rows], place[rows + 1]
    height = torch.maximum(heights[batch, left], heights[batch, right]) + 1
    levels[batch, left] = height
    heights[batch, right] = height


def _at_places(levels: Tensor, state: State) -> Tensor:
    """The level of each position [B, N]; of START, END and padding that of some token."""
    places = state.place.clamp(0, levels.shape[1] - 1)
    return levels.index_select(0, state.batch_index).gather(1, places)


def _joins_by_level(levels: Tensor) -> list[list[int]]:
    counts = levels.new_zeros(len(levels), int(levels.max()) + 1)
    return counts.scatter_add(1, levels, torch.ones_like(levels)).tolist()


def _checked(levels: Tensor, mask: Tensor) -> Tensor:
    if levels.shape != mask.shape or levels.dtype != torch.long:
        raise InputError(
            f"levels must be whole numbers (torch.long) {list(mask.shape)}, one for each token and 0 at padding; "
            f"got {levels.dtype} {list(levels.shape)}"
        )
    return levels
