"""The contract of scorers."""

from __future__ import annotations

from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Scorer
from crvnn_core.testing import generic
from crvnn_core.testing.common import Check, finite
from crvnn_core.testing.generic import Kind, Sequences, sequences


def _run(scorer: Scorer, batch: Sequences) -> dict[str, Tensor]:
    return {"a score": scorer(batch.vectors, batch.near, batch.left_c)}


SCORER = Kind("scorer", _run, leaves=("vectors", "left_c"), half=0.25)


def check_scorer_gives_one_score_a_position(component: Component) -> None:
    """The scores have the shape [B, n] and are finite."""
    batch = sequences()
    (scores,) = _run(SCORER.build(component), batch).values()
    assert scores.shape == batch.mask.shape, f"expected {list(batch.mask.shape)}, got {list(scores.shape)}"
    finite(scores, "a score")


SCORER_CHECKS: tuple[Check, ...] = (
    check_scorer_gives_one_score_a_position,
    *SCORER.checks(
        generic.treats_each_sequence_alone,
        generic.ignores_padding,
        generic.ignores_positions_that_are_gone,
        generic.learns,
        generic.has_gradients_of_its_present_weights,
        generic.runs_on_any_device,
        generic.works_under_autocast,
        generic.is_deterministic,
        generic.can_be_saved,
        generic.has_its_live_settings,
    ),
)
