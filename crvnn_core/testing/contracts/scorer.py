"""The contract of scorers."""

from __future__ import annotations

from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Scorer
from crvnn_core.testing.common import finite, shaped
from crvnn_core.testing.generic import Modules, Sequences, sequences


class Scorers(Modules):
    """Scorers, called for the scores of a batch."""

    slot = "scorer"
    leaves = ("vectors", "left_c")
    half = 0.25

    def run(self, module: Scorer, batch: Sequences) -> dict[str, Tensor]:
        return {"a score": module(batch.vectors, batch.near, batch.left_c)}


MODULES = Scorers()


def check_scorer_gives_one_score_a_position(component: Component) -> None:
    """The scores have the shape [B, n] and are finite."""
    batch = sequences()
    (scores,) = MODULES.run(MODULES.build(component), batch).values()
    shaped(scores, batch.mask.shape, "the scores")
    finite(scores, "a score")
