"""The contract of decisions."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from crvnn_core.engine.neighbourhoods import MatrixNeighbourhood
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Decision
from crvnn_core.testing.common import build, finite, probabilities, random
from crvnn_core.testing.generic import Modules, Sequences, sequences


class Decisions(Modules):
    """Decisions, called for the c of a batch."""

    slot = "decision"
    without = ("has_gradients_of_its_present_weights",)
    half = 0.02

    def run(self, module: Decision, batch: Sequences) -> dict[str, Tensor]:
        return {"c": module(batch.scores, batch.near, batch.eligible, batch.exists * batch.mask)}


MODULES = Decisions()


def _inputs() -> tuple[Tensor, MatrixNeighbourhood, Tensor, Tensor]:
    """Scores, neighbourhood, eligibility and existence of the checks' batch."""
    batch = sequences()
    return batch.scores, batch.near, batch.eligible, batch.exists


def check_decision_gives_probabilities(component: Component) -> None:
    """Every c lies in [0, 1] and is 0 where a position is not eligible, in training too, however large the scores."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    for training in (True, False):
        decision.train(training)
        for scale in (0.0, 1.0, 50.0, 1000.0):
            for given in (scale * scores, scale * scores.abs()):
                chosen = decision(given, near, eligible, exists)
                probabilities(chosen, scores.shape, ~eligible, "c", "where a position is not eligible")


def check_decision_gradient_vanishes_if_declared(component: Component) -> None:
    """If it sets ``gradient_vanishes``, c has no gradient where it is exactly 0 or 1, whatever the scores."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    if not decision.gradient_vanishes:
        return
    weights = random(*scores.shape, seed=3).sigmoid()  # else what two positions share would cancel
    for training in (True, False):
        decision.train(training)
        for scale in (0.3, 1.0, 3.0, 10.0, 100.0):
            given = [(scale * scores).requires_grad_(), exists.clone().requires_grad_()]
            chosen = decision(given[0], near, eligible, given[1])
            saturated = eligible & ((chosen == 0) | (chosen == 1))
            if not bool(saturated.any()):
                continue
            loss = (chosen * weights)[saturated].sum()
            for gradient in torch.autograd.grad(loss, given, allow_unused=True):
                steepest = 0.0 if gradient is None else gradient.abs().max().item()
                assert steepest < 1e-3, (
                    f"gradient_vanishes is set, but where c is exactly 0 or 1 it has a gradient, {steepest:.2g}, "
                    "as a straight-through estimate has: training would leave it out"
                )


def check_decision_saturates_only_if_declared(component: Component) -> None:
    """If it sets ``can_saturate`` to false, c is never exactly 0 or 1 at eligible positions."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    if not decision.can_saturate:
        chosen = decision(scores, near, eligible, exists)[eligible]
        assert bool(((chosen > 0) & (chosen < 1)).all()), "c is exactly 0 or 1, though can_saturate is false"


def check_decision_excludes_conflicts_if_declared(component: Component) -> str:
    """If it sets ``excludes_conflicts``, no two neighbours are both composed in a step while e is 0 or 1."""
    signs = random(64, 10, seed=3).sign()  # runs of equal scores among them
    decision = build(component)
    batch = Sequences.random(torch.ones_like(signs), torch.ones_like(signs, dtype=torch.bool))
    near, together, pair = batch.near, 0.0, (0.0, 0.0)
    for scale in (3.0, 30.0, 300.0):
        for scores in (scale * signs, scale * random(64, 10)):
            c = decision(scores, near, batch.eligible, batch.exists)
            both = c[:, :-1] * c[:, 1:]
            if both.max() > together:
                row, place = divmod(int(both.argmax()), both.shape[1])
                together, pair = both.max().item(), (c[row, place].item(), c[row, place + 1].item())
    seen = f"two neighbours have c = {pair[0]:.2f} and {pair[1]:.2f}"
    if decision.excludes_conflicts:
        assert together <= 0.5, f"excludes_conflicts is set, but {seen} in the same step"
        return f"it is set: at most, {seen}"
    return f"it is not set: {f'conflicts are possible, {seen}' if together > 0.5 else 'none were found'}"


def check_decision_likelihood_is_a_probability(component: Component) -> None:
    """The likelihood lies in [0, 1], and is 0 where a position is not eligible."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    for scale in (1.0, 50.0):
        likelihood = decision.likelihood(scale * scores, near, eligible, exists)
        probabilities(
            likelihood, scores.shape, ~eligible, "the likelihood", "where a position is not eligible"
        )


def check_decision_likelihood_has_a_gradient(component: Component) -> None:
    """A likelihood of its own has a gradient for scores of 6 and -6, where c may be saturated."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    if type(decision).likelihood is Decision.likelihood:
        return
    leaf = (6 * scores.sign()).requires_grad_()
    weights = random(*scores.shape, seed=3).sigmoid()  # else what two positions share would cancel
    loss = (decision.likelihood(leaf, near, eligible, exists) * weights).sum()
    assert loss.requires_grad, "the likelihood has no gradient"
    (gradient,) = torch.autograd.grad(loss, leaf)
    finite(gradient, "the gradient of the likelihood")
    assert bool(gradient[eligible].all()), "the likelihood has no gradient for scores of 6 and -6"


def check_decision_follows_the_scores(component: Component) -> None:
    """Raising one position's score never lowers its own probability, and can raise it."""
    scores, near, eligible, exists = _inputs()
    decision = build(component)
    scores = scores.clone()
    seen = []
    for score in (-6.0, -2.0, 0.0, 2.0, 6.0):
        scores[0, 2] = score
        seen.append(decision(scores, near, eligible, exists)[0, 2].item())
    assert all(a <= b + 1e-6 for a, b in pairwise(seen)), f"c falls while u rises: {seen}"
    assert seen[-1] > seen[0], f"c does not depend on u: {seen}"


def check_decision_passes_gradients(component: Component) -> None:
    """Gradients reach the scores and are finite, even of scores of 40."""
    scores, near, eligible, exists = _inputs()
    for scale in (1.0, 20.0):
        leaf = (scale * scores).requires_grad_()
        build(component)(leaf, near, eligible, exists).sum().backward()
        assert leaf.grad is not None, "no gradient reaches the scores"
        finite(leaf.grad, "the gradient of the scores")
        assert scale > 1 or bool(leaf.grad.abs().sum() > 0), "the gradient of the scores is 0"
