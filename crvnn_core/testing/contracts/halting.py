"""The contract of haltings."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.engine.recursion import Recursion
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Halting, Neighbourhood, StatefulHalting
from crvnn_core.testing.common import WIDTH, build, existences, padded, random, shaped
from crvnn_core.testing.generic import Modules, Sequences, partly_gone
from crvnn_core.testing.parts import PlainDecision, plain_parts


class Haltings(Modules):
    """Haltings, called for the active sequences of a batch."""

    slot = "halting"
    without = ("ignores_padding", "learns", "has_gradients_of_its_present_weights")
    by_position = False

    def run(self, module: Halting, batch: Sequences) -> dict[str, Tensor]:
        return {"the answer": _ask(module, batch.exists**4, 1, batch.vectors).float()}


MODULES = Haltings()


def _ask(halting: Halting, exists: Tensor, step: int = 1, vectors: Tensor | None = None) -> Tensor:
    """Its answer for some existence [B, n], by default with vectors that depend on the position only."""
    if vectors is None:
        vectors = random(32, WIDTH)[: exists.shape[1]].expand(len(exists), -1, -1)
    vectors = vectors * (exists > 0).unsqueeze(-1)
    if not isinstance(halting, StatefulHalting):
        return halting(exists, vectors, step)
    state = halting.initial_state((exists > 0).to(exists.dtype), -2 * vectors)
    return halting(exists, vectors, step, state)[0]


class _Clamped(PlainDecision):
    """A steep sigmoid, clamped so that some decisions are exactly 0 or 1 and positions leave."""

    def forward(self, scores: Tensor, near: Neighbourhood, eligible: Tensor, exists: Tensor) -> Tensor:
        return (1.4 * torch.sigmoid(6 * scores) - 0.2).clamp(0, 1) * eligible


def _recursion(halting: Halting, seed: int) -> Recursion:
    torch.manual_seed(seed)
    parts = {**plain_parts(WIDTH), "decision": _Clamped(), "halting": halting}
    return Recursion(WIDTH, **parts).eval()  # type: ignore[arg-type]


def check_halting_answers_for_each_sequence(component: Component) -> None:
    """The answer is one bool for each sequence."""
    mask = padded()
    going = _ask(build(component), existences(mask))
    shaped(going, mask.shape[:1], "the shape of the answer")
    assert going.dtype == torch.bool, f"expected bool, got {going.dtype}"


def check_halting_treats_each_sequence_alone(component: Component) -> None:
    """In a whole recursion, soft or hard, a sequence takes as many steps in a padded batch, in any order, as alone."""
    lengths = (8, 1, 4, 6)
    mask, halting = padded(lengths), build(component)
    for seed in range(4):
        inputs, recursion = random(*mask.shape, WIDTH, seed=seed), _recursion(halting, seed)
        for hard in (False, True):
            with torch.no_grad():
                together = recursion(inputs, mask, hard=hard).steps.tolist()
                turned = recursion(inputs.flip(0), mask.flip(0), hard=hard).steps.flip(0).tolist()
                alone = [
                    recursion(inputs[row : row + 1, :n], mask[row : row + 1, :n], hard=hard).steps.item()
                    for row, n in enumerate(lengths)
                ]
            assert together == turned == alone, (
                f"sequences of {lengths} tokens take {together} steps in a batch, {turned} in the opposite order and "
                f"{alone} alone"
            )


def check_halting_declares_its_state(component: Component) -> None:
    """What it keeps from step to step is the state of a ``StatefulHalting``, with a row for each sequence."""
    halting, mask = build(component), padded()
    recursion, kept = _recursion(halting, 0), []
    for _ in range(2):  # what it has computed once and for all is the same the second time
        with torch.no_grad():
            recursion(random(*mask.shape, WIDTH), mask)
        kept.append({**vars(halting), **dict(halting.named_buffers())})
    changed = [
        name for name, own in kept[1].items() if isinstance(own, Tensor) and own is not kept[0].get(name)
    ]
    assert not changed, (
        f"keeps {', '.join(changed)} in the module from step to step, though sequences leave the batch between them; "
        "make it the state of a StatefulHalting (docs/how-to/write-a-halting.md)"
    )


def check_halting_ignores_positions_that_are_gone(component: Component) -> None:
    """Taking out positions with e = 0 changes no answer."""
    halting = build(component)
    batch, kept = partly_gone()
    # Rows from hardly anything to everything: whatever threshold there is lies between two of them.
    scale = torch.logspace(-4, 0, 40).unsqueeze(1)
    exists = (scale * batch.exists[:1]).contiguous()
    vectors = scale.unsqueeze(-1) * random(*exists.shape, WIDTH)
    for step in (1, 5):
        whole, rest = (
            _ask(halting, exists[:, places], step, vectors[:, places]) for places in (range(12), kept)
        )
        assert whole.tolist() == rest.tolist(), (
            "whether a sequence continues depends on positions with e = 0; weigh positions by exists"
        )


def check_halting_lets_fresh_sequences_go_on(component: Component) -> None:
    """While every token still exists and vectors change, a sequence of two or more continues."""
    going = _ask(build(component), padded((5, 3, 2)).float())
    assert bool(going.all()), f"stops before anything was composed: {going.tolist()}"


def check_halting_has_a_sensible_limit(component: Component) -> None:
    """The limit on steps is a positive number, or None for no limit."""
    limit = build(component).limit
    assert limit is None or (isinstance(limit, int) and limit > 0), f"limit is {limit!r}"


def check_halting_needs_vectors_only_if_declared(component: Component) -> None:
    """With ``needs_vectors = False`` it gives the same answer whatever the vectors are."""
    halting = build(component)
    if halting.needs_vectors:
        return
    exists = existences(padded()) ** 4
    for vectors in (torch.zeros(*exists.shape, WIDTH), 100 * random(*exists.shape, WIDTH)):
        answer = _ask(halting, exists, 3, vectors).tolist()
        assert answer == _ask(halting, exists, 3).tolist(), (
            "the answer depends on the vectors; needs_vectors must be true"
        )
