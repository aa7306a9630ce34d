"""Composition along given trees, with the likelihood of the decisions that build them; and along sampled trees.

A tree is described by the *level* of each of its tokens: the step, from 1, in which the token, with all that has joined
it, joins its right neighbour. The last token and padding have level 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.checks import expect_shape
from crvnn_core.engine.hard import begin, with_parents
from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations import flagged_rows, from_left
from crvnn_core.engine.results import Results
from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.errors import InputError
from crvnn_core.interfaces import Encoding

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion

_LEAST_LIKELIHOOD = 1e-6  # of a decision: below it the loss is constant, so that no gradient is infinite


def encode_along(engine: Recursion, inputs: Tensor, mask: Tensor, levels: Tensor, trace: bool) -> Encoding:
    """Encode along the trees that ``levels`` [B, n] describe, with exactly n - 1 compositions of n tokens.

    Besides the lengths, the host reads from the device once: the levels.
    """
    state = begin(engine, inputs, mask)
    levels = _checked(levels, mask)[:, : max(state.lengths)]
    counts = _joins_by_level(levels, state.lengths)
    depths = [max(count, default=0) for count in counts]
    results = Results(penalty=0.0, unhalted_only=False)  # one node is left of every sequence
    recorder = Recorder(mask, state.exists.dtype) if trace else None
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
        total = total.index_add(0, state.batch_index, _negative_log_likelihood(engine, state, joins))
        for row, size in zip(rows, sizes, strict=True):
            decisions[row] += size - 2 * state.edge - 1
        state = _joined(engine, state, joins, flagged_rows(joins, sum(counts[row][level] for row in rows)))
        kept = state.present & ~joins
        if recorder is not None:
            recorder.record(state, joins, kept & state.tokens)
        sizes = [size - counts[row][level] for row, size in zip(rows, sizes, strict=True)]
    encoding = results.encoding(engine.cell.readout, recorder)
    encoding.decision_loss = total / torch.tensor(decisions, device=total.device).clamp(min=1)
    return encoding


@torch.no_grad()
def encode_sampled(
    engine: Recursion, inputs: Tensor, mask: Tensor, noise: float, cohesion: Tensor | None = None
) -> Encoding:
    """Encode along one tree for each sequence, drawn with Gumbel noise on the scores of every step.

    A position joins its right neighbour if its likelihood under the noisy scores is above 0.5, or the highest of its
    sequence; of neighbours that would join in the same step only the leftmost does. With ``cohesion`` [B, n] no pair
    joins while one of its nodes has a higher cohesion with its neighbour on the other side. The levels of the result
    are those of a tree in which every pair joins as soon as both its nodes are complete. The host reads from the
    device once a step: how many pairs join.
    """
    state = begin(engine, inputs, mask)
    if cohesion is not None:
        _expect_cohesion(cohesion, mask)
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
        joins = _sampled_joins(engine, state, noise, _may_join(state, cohesion))
        made = joins.sum(1).tolist()
        rows = flagged_rows(joins, sum(made))
        _set_levels(levels, heights, state, rows)
        state = _joined(engine, state, joins, rows)
        kept = state.present & ~joins
        sizes = [size - joined for size, joined in zip(sizes, made, strict=True)]
    encoding = results.encoding(engine.cell.readout, None)
    encoding.levels = levels
    return encoding


def _sampled_joins(engine: Recursion, state: State, noise: float, allowed: Tensor) -> Tensor:
    """Which positions join their right neighbour [B, N]: at least one of every sequence, and never two neighbours."""
    c = _likelihood(engine, state, noise)
    highest = torch.where(allowed, c, -1).argmax(1, keepdim=True)
    wanted = (c > 0.5).scatter(1, highest, True) & allowed
    return wanted & ~from_left(wanted)


def _may_join(state: State, cohesion: Tensor | None) -> Tensor:
    """Which positions may join their right neighbour [B, N]; the highest cohesion of a sequence always may."""
    if cohesion is None:
        return state.eligible
    lowest = torch.iinfo(torch.long).min
    # Of each node with its right neighbour, with its left one, and of that neighbour with the next:
    behind = torch.where(state.eligible, _at_places(cohesion, state), lowest)
    before, after = pad(behind[:, :-1], (1, 0), value=lowest), pad(behind[:, 1:], (0, 1), value=lowest)
    return state.eligible & (behind >= before) & (behind >= after)


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


def _negative_log_likelihood(engine: Recursion, state: State, joins: Tensor) -> Tensor:
    """Of these decisions [B, N], summed over the eligible positions of each sequence: [B]."""
    c = _likelihood(engine, state)
    likelihood = torch.where(joins, c, 1 - c).clamp(min=_LEAST_LIKELIHOOD)
    return -(torch.log(likelihood) * state.eligible).sum(1)


def _joined(engine: Recursion, state: State, joins: Tensor, rows: Tensor) -> State:
    """The state after these joins [B, N], which are in these ``rows`` [m]: each parent in place of its right child."""
    nodes = with_parents(engine, state.nodes, rows)
    return state.next(nodes, state.exists, from_left(joins).to(state.exists.dtype))


def _set_levels(levels: Tensor, heights: Tensor, state: State, rows: Tensor) -> None:
    """Set the levels of the tokens in these rows [m] of a state, which join what is behind them, and the heights."""
    batch = state.batch_index[rows // state.place.shape[1]]
    place = state.place.flatten()
    left, right = place[rows], place[rows + 1]
    height = torch.maximum(heights[batch, left], heights[batch, right]) + 1
    levels[batch, left] = height
    heights[batch, right] = height


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


def _expect_cohesion(cohesion: Tensor, mask: Tensor) -> None:
    """Refuse a cohesion that has not one whole number for each token."""
    if cohesion.shape != mask.shape or cohesion.dtype != torch.long:
        raise InputError(
            f"cohesion must be whole numbers (torch.long) {list(mask.shape)}, one for each token; "
            f"got {cohesion.dtype} {list(cohesion.shape)}"
        )


def _checked(levels: Tensor, mask: Tensor) -> Tensor:
    if levels.shape != mask.shape or levels.dtype != torch.long:
        raise InputError(
            f"levels must be whole numbers (torch.long) {list(mask.shape)}, one for each token and 0 at padding; "
            f"got {levels.dtype} {list(levels.shape)}"
        )
    return levels
