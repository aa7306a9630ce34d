"""Hard inference: binary decisions, and one composition for each node of a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations import flagged_rows, join, put_parents, take_children
from crvnn_core.engine.results import Results
from crvnn_core.engine.state import State
from crvnn_core.engine.trace import Recorder
from crvnn_core.interfaces import Encoding

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion


@torch.inference_mode()
def encode_hard(engine: Recursion, inputs: Tensor, mask: Tensor, trace: bool) -> Encoding:
    """Encode along one tree for each sequence, with exactly n - 1 compositions of n tokens.

    A position joins its right neighbour when by then it has more likely been composed than not. Of neighbours that
    would do so in the same step the left one goes first. When a sequence halts, or its steps run out, what is left
    of it joins from left to right. Here ``state.exists`` is the probability of not having been composed yet.
    """
    state = begin(engine, inputs, mask)
    results = Results(penalty=0.0, unhalted_only=False)  # one node is left of every sequence
    recorder = Recorder(mask, state.exists.dtype) if trace else None
    tokens_left, sizes = list(state.lengths), [length + 2 * state.edge for length in state.lengths]
    # [B] the steps after which what is left joins from left to right; 0 for what has halted
    limits = engine.step_limits(state.tokens.sum(1))
    kept = state.present
    while active := _retire(results, state, tokens_left):
        tokens_left, sizes = [tokens_left[i] for i in active], [sizes[i] for i in active]
        if len(active) < len(state.lengths):
            limits = limits[active]
        if state.step or len(active) < len(state.lengths):
            state = state.compacted(active, kept, max(sizes))
        there = state.present.to(state.exists.dtype)  # every position that is left exists
        c = engine.decide(state, adjacent(state.present, there), there)
        remaining, joins, receives, kept, exists = join(
            c, state.exists, state.eligible, state.tokens, state.present, limits <= state.step
        )
        made = joins.sum(1).tolist()  # the host reads from the device once a step
        nodes = with_parents(engine, state.nodes, flagged_rows(joins, sum(made)))
        more, halting = engine.wants_more(exists, nodes, state.step + 1, state.halting)
        limits = limits * more
        state = state.next(nodes, remaining, receives)
        state.halting = halting
        if recorder is not None:
            recorder.record(state, joins, exists)
        tokens_left = [count - joined for count, joined in zip(tokens_left, made, strict=True)]
        sizes = [size - joined for size, joined in zip(sizes, made, strict=True)]
    return results.encoding(engine.cell.readout, recorder)


def begin(engine: Recursion, inputs: Tensor, mask: Tensor) -> State:
    """The state before the first step, for ``with_parents``: leaves that nothing else holds, where it changes them."""
    state = engine.begin(inputs, mask)
    if not torch.is_grad_enabled():  # a leaf transform may return a parameter, or something that it keeps
        state.nodes = state.nodes.clone()
    return state


def with_parents(engine: Recursion, nodes: Tensor, rows: Tensor) -> Tensor:
    """The nodes [B, N, s] after each of these rows [m] has joined the one behind it, in whose place the parent is.

    Without gradients the nodes themselves are changed: nothing else may hold them.
    """
    left, right, nodes = take_children(nodes, rows)
    return put_parents(nodes, engine.compose(left, right), rows)


def _retire(results: Results, state: State, tokens_left: list[int]) -> list[int]:
    """The sequences of which more than one token is left; the results of the others are kept."""
    done = [i for i, count in enumerate(tokens_left) if count == 1]
    if done:
        results.add(state, done, halted=True)
    return [i for i, count in enumerate(tokens_left) if count > 1]
