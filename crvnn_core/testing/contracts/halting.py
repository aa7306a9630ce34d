"""The contract of haltings."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Halting
from crvnn_core.testing.common import (
    UNSAVED,
    WIDTH,
    build,
    existences,
    half_precision,
    live_settings_exist,
    no_stray_tensors,
    padded,
    partly_gone,
    random,
    same_on_every_call,
    used_and_reloaded,
)


def _ask(halting: Halting, exists: Tensor, step: int = 1) -> Tensor:
    """Its answer for some existence [B, n], with vectors that depend on the position only."""
    vectors = random(32, WIDTH)[: exists.shape[1]].expand(len(exists), -1, -1)
    return halting(exists, vectors * (exists > 0).unsqueeze(-1), step)


def check_halting_answers_for_each_sequence(component: Component) -> None:
    """The answer is one bool for each sequence."""
    mask = padded()
    going = _ask(build(component), existences(mask))
    assert going.shape == (len(mask),), f"expected [{len(mask)}], got {list(going.shape)}"
    assert going.dtype == torch.bool, f"expected bool, got {going.dtype}"


def check_halting_treats_each_sequence_alone(component: Component) -> None:
    """A sequence continues in a padded batch just when it continues alone."""
    mask = padded((9, 1, 4, 6))
    halting = build(component)
    for seed in range(20):
        exists = existences(mask, seed) ** 4
        together = _ask(halting, exists, 2)
        for row, n in enumerate(mask.sum(1).tolist()):
            alone = _ask(halting, exists[row : row + 1, :n], 2)
            assert together[row] == alone[0], (
                f"sequence {row} continues: {bool(together[row])} in a batch, {bool(alone[0])} alone"
            )


def check_halting_ignores_positions_that_are_gone(component: Component) -> None:
    """Taking out positions with e = 0, whatever their vectors, changes no answer."""
    halting = build(component)
    exists, kept = partly_gone()
    # Rows from hardly anything to everything: whatever threshold there is lies between two of them.
    scale = torch.logspace(-4, 0, 40).unsqueeze(1)
    exists = (scale * exists[:1]).contiguous()
    vectors = scale.unsqueeze(-1) * random(*exists.shape, WIDTH) * (1 + 9.0 * (exists == 0)).unsqueeze(-1)
    for step in (1, 5):
        whole, rest = halting(exists, vectors, step), halting(exists[:, kept], vectors[:, kept], step)
        assert whole.tolist() == rest.tolist(), (
            "whether a sequence continues depends on positions with e = 0; weigh positions by exists"
        )


def check_halting_lets_fresh_sequences_go_on(component: Component) -> None:
    """While every token still exists there is work to do, so a sequence of two or more continues."""
    going = _ask(build(component), padded((5, 3, 2)).float())
    assert bool(going.all()), f"stops before anything was composed: {going.tolist()}"


def check_halting_has_a_sensible_limit(component: Component) -> None:
    """The limit on steps is a positive number, or None for no limit."""
    limit = build(component).limit
    assert limit is None or (isinstance(limit, int) and limit > 0), f"limit is {limit!r}"


def _meta() -> tuple[Tensor, Tensor]:
    return torch.rand(2, 5, device="meta"), torch.rand(2, 5, WIDTH, device="meta")


def check_halting_runs_on_any_device(component: Component) -> None:
    """Every tensor is made on the device of the input."""
    with no_stray_tensors():
        assert build(component).to("meta")(*_meta(), 1).is_meta


def check_halting_works_under_autocast(component: Component) -> None:
    """Under autocast the answers are the same."""
    exists = existences(padded())
    halting = build(component)
    with half_precision():
        going = _ask(halting, exists)
    assert going.tolist() == _ask(halting, exists).tolist(), "under autocast the answer is another"


def check_halting_needs_vectors_only_if_declared(component: Component) -> None:
    """With ``needs_vectors = False`` it gives the same answer whatever the vectors are."""
    halting = build(component)
    if halting.needs_vectors:
        return
    exists = existences(padded()) ** 4
    for vectors in (torch.zeros(*exists.shape, WIDTH), 100 * random(*exists.shape, WIDTH)):
        answer = halting(exists, vectors, 3).tolist()
        assert answer == _ask(halting, exists, 3).tolist(), (
            "the answer depends on the vectors; needs_vectors must be true"
        )


def check_halting_is_deterministic(component: Component) -> None:
    """In evaluation the same input gives the same answer on every call."""
    exists = existences(padded()) ** 4
    halting = build(component)
    same_on_every_call(lambda: _ask(halting, exists).float())


def check_halting_can_be_saved(component: Component) -> None:
    """After use in training, its saved weights give the same answer in another one."""
    exists = existences(padded()) ** 4
    one, two = used_and_reloaded(component, lambda halting: _ask(halting, exists))
    assert _ask(one, exists).tolist() == _ask(two, exists).tolist(), UNSAVED


def check_halting_has_its_live_settings(component: Component) -> None:
    """Every name in ``live_settings`` is a parameter that a spec can set."""
    live_settings_exist(component, build(component))


HALTING_CHECKS = (
    check_halting_answers_for_each_sequence,
    check_halting_treats_each_sequence_alone,
    check_halting_ignores_positions_that_are_gone,
    check_halting_lets_fresh_sequences_go_on,
    check_halting_has_a_sensible_limit,
    check_halting_runs_on_any_device,
    check_halting_works_under_autocast,
    check_halting_needs_vectors_only_if_declared,
    check_halting_is_deterministic,
    check_halting_can_be_saved,
    check_halting_has_its_live_settings,
)
