"""The contract of encoders that sample decisions in training and learn them by reinforcement."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Encoding
from crvnn_core.testing.common import WIDTH, Check, build, finite, padded, random
from crvnn_core.testing.parts import encoder_arguments


def total(encoding: Encoding) -> Tensor:
    """A number that depends on all that training can take a gradient of: vectors, penalties and log-probabilities."""
    number = (encoding.vector * random(encoding.vector.shape[1])).sum() + encoding.penalty.sum()
    return number if encoding.log_probability is None else number + encoding.log_probability.sum()


def _trained(component: Component) -> tuple[Any, Encoding]:
    """The encoder with plain parts, and an encoding of its in training."""
    encoder, mask = build(component, seed=0, **encoder_arguments(WIDTH)).train(), padded()
    return encoder, encoder(random(*mask.shape, WIDTH), mask)


def check_encoder_samples_in_training_only(component: Component) -> None:
    """Log-probabilities of sampled decisions, where given, are [B], at most 0, and not given in evaluation."""
    encoder, encoding = _trained(component)
    chances = encoding.log_probability
    if chances is not None:
        size = len(encoding.vector)
        assert chances.shape == (size,), f"log_probability is {list(chances.shape)}; expected {[size]}"
        finite(chances, "log_probability")
        assert bool((chances <= 0).all()), f"log_probability is {chances.max():.3g}; it cannot be positive"
        assert chances.requires_grad, "log_probability has no gradient"
    mask = padded()
    evaluated = encoder.eval()(random(*mask.shape, WIDTH), mask)
    assert evaluated.log_probability is None and evaluated.baseline is None, (
        "log_probability or baseline is given in evaluation, where nothing is learnt; use self.training"
    )


def check_encoder_gives_baselines_without_gradients(component: Component) -> None:
    """Baselines, where given, are like the vectors, without gradient, and come with log-probabilities."""
    _, encoding = _trained(component)
    if (baseline := encoding.baseline) is None:
        return
    assert encoding.log_probability is not None, "there is a baseline, but no log_probability"
    vector = encoding.vector
    assert baseline.shape == vector.shape, (
        f"baselines are {list(baseline.shape)}, vectors {list(vector.shape)}"
    )
    assert not baseline.requires_grad, "baselines require gradients; compute them under torch.no_grad()"
    finite(baseline, "a baseline")


def check_encoder_weighs_its_costs(component: Component) -> None:
    """``relative_cost`` of the encodings' costs is [B] and finite, in the first batch of training and later."""
    encoder, encoding = _trained(component)
    if encoding.log_probability is None:
        return
    cost = random(len(encoding.vector)).abs()
    baseline = None if encoding.baseline is None else random(len(cost), seed=2).abs()
    for _ in range(3):
        relative = encoder.relative_cost(cost, baseline)
        assert relative.shape == cost.shape, (
            f"relative_cost is {list(relative.shape)}; expected {list(cost.shape)}"
        )
        finite(relative, "relative_cost")
    with torch.no_grad():
        finite(encoder.relative_cost(cost[:1], None if baseline is None else baseline[:1]), "relative_cost")


REINFORCEMENT_CHECKS: tuple[Check, ...] = (
    check_encoder_samples_in_training_only,
    check_encoder_gives_baselines_without_gradients,
    check_encoder_weighs_its_costs,
)
