"""A recursion as one graph, which torch traces once for all lengths: masks where the engine drops and compacts.

Shapes stay the same from step to step, nothing is read by the host, and the loop over steps is ``torch.while_loop``, or
unrolled to a fixed depth. Results are those of the engine; it costs more where the engine leaves something out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from crvnn_core.engine.neighbourhoods import adjacent
from crvnn_core.engine.operations.blend import blend
from crvnn_core.engine.operations.joins import join
from crvnn_core.engine.operations.transition import transition
from crvnn_core.engine.state import State
from crvnn_core.interfaces import Encoder, Encoding

if TYPE_CHECKING:
    from crvnn_core.engine.recursion import Recursion

#: The tensors that a step changes.
Carried = tuple[Tensor, ...]


class TraceableRecursion(nn.Module):
    """A ``Recursion`` with the same parts, from inputs [B, n, d] and a mask [B, n] to vectors [B, d].

    :param engine: whose parts and settings are used; its retriever in its traceable form.
    :param depth: unroll the loop to this many steps; ``None`` to loop while a sequence is active.
    """

    def __init__(self, engine: Recursion, depth: int | None = None) -> None:
        super().__init__()
        self.engine, self.depth = engine, depth
        self.retriever = engine.retriever.traceable()

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Padding is on the right; nothing is checked, since that would need the data."""
        state = self.engine.initial_state(inputs, mask, ())
        limits = self.engine.step_limits(mask.sum(1))
        carried = self.begin(state, limits)

        def step(*carried: Tensor) -> Carried:
            return self.step(state, limits, carried)

        if self.depth is None:
            carried = while_loop(self.any_active, step, carried)
        else:
            for _ in range(self.depth):
                carried = step(*carried)
        rows = torch.arange(inputs.shape[0], device=inputs.device)
        return self.engine.cell.readout(carried[0][rows, self.root(state)])

    @abstractmethod
    def begin(self, state: State, limits: Tensor) -> Carried:
        """What is carried into the first step; the nodes [B, N, s] come first."""

    @abstractmethod
    def any_active(self, *carried: Tensor) -> Tensor:
        """Whether another step is to be taken."""

    @abstractmethod
    def step(self, state: State, limits: Tensor, carried: Carried) -> Carried:
        """One step of all sequences; those that are done stay as they are. What it returns is none of ``carried``."""

    @abstractmethod
    def root(self, state: State) -> Tensor:
        """Where the root of each sequence is in the end [B]."""


class TraceableSoft(TraceableRecursion):
    """Algorithm 1 at every position.

    Carried: r, e, left(c), which sequences are active, steps taken, and the state of a halting that has one.
    """

    def begin(self, state: State, limits: Tensor) -> Carried:
        taken = torch.zeros_like(limits)
        return state.nodes, state.exists, state.left_c, taken < limits, taken, *state.halting

    def any_active(self, *carried: Tensor) -> Tensor:
        return carried[3].any()

    def step(self, state: State, limits: Tensor, carried: Carried) -> Carried:
        nodes, exists, left_c, active, taken, *halting = carried
        near = self.retriever(exists, state.present)
        now = _with(state, nodes, exists, left_c, (state.present, state.tokens, state.eligible))
        c = self.engine.decide(now, near, exists)
        _, alpha, e_next = transition(c, near, exists, state.eligible, state.tokens)
        r_next = blend(nodes, self.engine.compose(near.left(nodes), nodes), alpha)
        changes = active.unsqueeze(1)
        nodes = torch.where(changes.unsqueeze(2), r_next, nodes)
        exists, left_c = torch.where(changes, e_next, exists), torch.where(changes, alpha, left_c)
        taken = taken + active
        # All that are active have taken the same number of steps, and no other has taken more.
        more, own = self.engine.wants_more(exists * state.tokens, nodes, taken.amax(), tuple(halting))
        return nodes, exists, left_c, active & more & (taken < limits), taken, *map(torch.clone, own)

    def root(self, state: State) -> Tensor:
        return state.last()


class TraceableHard(TraceableRecursion):
    """Hard inference as ``encode_hard`` does it, the kept positions moved to the left after each step.

    Carried: nodes, the probability of not having been composed yet, left(c), present, tokens, eligible, which sequences
    are closing, how many tokens are left of each, the number of steps, and the state of a halting that has one.
    """

    def begin(self, state: State, limits: Tensor) -> Carried:
        tensors = (state.nodes, state.exists, state.left_c, state.present, state.tokens, state.eligible)
        closing = torch.zeros_like(limits, dtype=torch.bool)
        return *tensors, closing, state.tokens.sum(1), torch.zeros_like(limits[0]), *state.halting

    def any_active(self, *carried: Tensor) -> Tensor:
        return (carried[7] > 1).any()

    def step(self, state: State, limits: Tensor, carried: Carried) -> Carried:
        nodes, remaining, left_c, present, tokens, eligible, closing, tokens_left, number, *halting = carried
        closing = closing | (number >= limits)
        there = present.to(remaining.dtype)
        now = _with(state, nodes, remaining, left_c, (present, tokens, eligible))
        c = self.engine.decide(now, adjacent(present, there), there)
        remaining, joins, receives, kept, exists = join(c, remaining, eligible, tokens, present, closing)
        number = number + 1
        parents = self.engine.compose(pad(nodes[:, :-1], (0, 0, 1, 0)), nodes)  # with the position before
        nodes = torch.where((receives > 0).unsqueeze(2), parents, nodes)
        more, own = self.engine.wants_more(exists, nodes, number, tuple(halting))
        order = _kept_first(kept)
        nodes = nodes.gather(1, order.unsqueeze(2).expand_as(nodes))
        remaining, left_c, *flags = (
            values.gather(1, order)
            for values in (remaining * kept, receives, kept, tokens & kept, eligible & kept)
        )
        tokens_left = tokens_left - joins.sum(1)
        return nodes, remaining, left_c, *flags, closing | ~more, tokens_left, number, *map(torch.clone, own)

    def root(self, state: State) -> Tensor:
        return torch.full_like(state.batch_index, state.edge)  # all that is left of the tokens


def _with(
    state: State, nodes: Tensor, exists: Tensor, left_c: Tensor, flags: tuple[Tensor, Tensor, Tensor]
) -> State:
    """A state with other nodes, existence and left(c), and with these flags: present, tokens, eligible."""
    present, tokens, eligible = flags
    place, index = state.place, state.batch_index
    return State(nodes, exists, left_c, None, present, tokens, eligible, place, index, state.edge, ())


def _kept_first(kept: Tensor) -> Tensor:
    """The order of positions [B, N] in which the kept ones come first, and each kind as before."""
    place = torch.arange(kept.shape[1], device=kept.device)
    return torch.where(kept, place, place + kept.shape[1]).argsort(1)


def while_loop(condition: Callable[..., Tensor], step: Callable[..., Carried], carried: Carried) -> Carried:
    """Repeat a step while a condition holds, as one operation of torch's graph."""
    from torch._higher_order_ops.while_loop import while_loop as loop  # imports Dynamo, which takes a second

    found: Carried = loop(condition, step, carried)  # type: ignore[no-untyped-call]
    return found


_uncompiled: Callable[..., Encoding] | None = None


def uncompiled() -> Callable[..., Encoding]:
    """A function that calls an encoder as if torch.compile were not there.

    The engine's loop reads from the device after each step and its shapes change, so torch.compile would break its
    graph in every step and compile again for new shapes, up to its limit (docs/how-to/compile.md).
    """
    global _uncompiled
    if _uncompiled is None:
        import torch._dynamo  # takes a second, and only torch.compile needs it

        reason = "shapes of a recursion depend on its data (docs/how-to/compile.md)"
        _uncompiled = torch._dynamo.disable(_call, reason=reason)  # type: ignore[no-untyped-call]
    return _uncompiled


def _call(encoder: Encoder, *args: Any, **kwargs: Any) -> Encoding:
    return encoder(*args, **kwargs)
