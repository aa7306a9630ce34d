"""The contract of scorers."""

from __future__ import annotations

import torch
from torch import Tensor

from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood
from crvnn_core.host.component import Component
from crvnn_core.testing.common import (
    UNSAVED,
    WIDTH,
    build,
    existences,
    finite,
    gradients_are_those_of_the_present_weights,
    gradients_reach,
    half_precision,
    no_stray_tensors,
    padded,
    partly_gone,
    random,
    same,
    same_on_every_call,
    used_and_reloaded,
)
from crvnn_core.testing.oracles import matrices


def _inputs(row: int | None = None) -> tuple[Tensor, MatrixNeighbourhood, Tensor, Tensor]:
    """Vectors, neighbourhood, left(c) and mask of the checks' batch, or of one sequence of it, unpadded."""
    mask = padded()
    rows = slice(None) if row is None else slice(row, row + 1)
    n = mask.shape[1] if row is None else int(mask[row].sum())
    mask, exists = mask[rows, :n], existences(mask)[rows, :n]
    left_c = torch.rand(padded().shape, generator=torch.Generator().manual_seed(4))[rows, :n]
    return random(*padded().shape, WIDTH)[rows, :n], matrices(exists), left_c, mask


def check_scorer_gives_one_score_a_position(component: Component) -> None:
    """The scores have the shape [B, n] and are finite."""
    vectors, near, left_c, mask = _inputs()
    scores = build(component)(vectors, near, left_c)
    assert scores.shape == mask.shape, f"expected {list(mask.shape)}, got {list(scores.shape)}"
    finite(scores, "the scores")


def check_scorer_treats_each_sequence_alone(component: Component) -> None:
    """A sequence in a padded batch gives what it gives alone."""
    scorer = build(component)
    vectors, near, left_c, mask = _inputs()
    together = scorer(vectors, near, left_c)
    for row in range(len(mask)):
        vectors, near, left_c, alone = _inputs(row)
        same(together[row : row + 1, : alone.shape[1]], scorer(vectors, near, left_c), f"sequence {row}")


def check_scorer_ignores_padding(component: Component) -> None:
    """Changing vectors under the mask changes no score of a token."""
    scorer = build(component)
    vectors, near, left_c, mask = _inputs()
    changed = torch.where(mask.unsqueeze(-1), vectors, 9.0)
    same(scorer(changed, near, left_c)[mask], scorer(vectors, near, left_c)[mask], "with other padding")


def check_scorer_ignores_positions_that_are_gone(component: Component) -> None:
    """Taking out positions with e = 0 changes no score of the others."""
    scorer = build(component)
    exists, kept = partly_gone()
    vectors, left_c = random(*exists.shape, WIDTH), random(*exists.shape, seed=4).sigmoid()
    whole = scorer(vectors, matrices(exists), left_c)[:, kept]
    rest = scorer(vectors[:, kept], matrices(exists[:, kept]), left_c[:, kept])
    same(rest, whole, "without the positions that have e = 0, which are seen other than through near")


def check_scorer_learns(component: Component) -> None:
    """In training, gradients reach every parameter and the vectors."""
    scorer = build(component).train()
    vectors, near, left_c, mask = _inputs()
    vectors.requires_grad_()
    gradients_reach(scorer, (scorer(vectors, near, left_c)[mask] ** 2).sum())
    assert vectors.grad is not None, "no gradient reaches the vectors"
    finite(vectors.grad, "the gradient of the vectors")


def check_scorer_has_gradients_of_its_present_weights(component: Component) -> None:
    """Gradients are right while earlier graphs live and after weights have changed in place."""
    vectors, near, left_c, mask = _inputs()
    gradients_are_those_of_the_present_weights(
        lambda: build(component),
        lambda scorer, vectors, left_c: (scorer(vectors, near, left_c)[mask] ** 2).sum(),
        vectors,
        left_c,
    )


def check_scorer_runs_on_any_device(component: Component) -> None:
    """Every tensor is made on the device of the input."""
    with no_stray_tensors():
        near = MatrixNeighbourhood(torch.rand(2, 5, 5, device="meta"), torch.rand(2, 5, 5, device="meta"))
        scores = build(component).to("meta")(
            torch.rand(2, 5, WIDTH, device="meta"), near, torch.rand(2, 5, device="meta")
        )
        assert scores.is_meta


def check_scorer_works_under_autocast(component: Component) -> None:
    """Under autocast the scores are finite and close."""
    scorer = build(component)
    vectors, near, left_c, mask = _inputs()
    exact = scorer(vectors, near, left_c)
    with half_precision():
        got = scorer(vectors, near, left_c)
    finite(got, "the scores")
    same(got[mask].float(), exact[mask], "in bfloat16", tolerance=0.25)


def check_scorer_is_deterministic(component: Component) -> None:
    """In evaluation the same input gives the same bits on every call."""
    scorer = build(component)
    vectors, near, left_c, _ = _inputs()
    same_on_every_call(lambda: scorer(vectors, near, left_c))


def check_scorer_can_be_saved(component: Component) -> None:
    """After use in training, its saved weights give the same bits in another one."""
    vectors, near, left_c, _ = _inputs()
    one, two = used_and_reloaded(component, lambda scorer: scorer(vectors, near, left_c))
    same(two(vectors, near, left_c), one(vectors, near, left_c), UNSAVED, 0)


SCORER_CHECKS = (
    check_scorer_gives_one_score_a_position,
    check_scorer_treats_each_sequence_alone,
    check_scorer_ignores_padding,
    check_scorer_ignores_positions_that_are_gone,
    check_scorer_learns,
    check_scorer_has_gradients_of_its_present_weights,
    check_scorer_runs_on_any_device,
    check_scorer_works_under_autocast,
    check_scorer_is_deterministic,
    check_scorer_can_be_saved,
)
