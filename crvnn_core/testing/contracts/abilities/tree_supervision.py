"""The contract of encoders that declare ``tree_supervision``: composition along given and sampled trees."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from crvnn_core.host.component import Component
from crvnn_core.testing.common import WIDTH, Check, build, finite, half_precision, padded, random, same
from crvnn_core.testing.parts import encoder_arguments
from crvnn_core.trees import Tree
from crvnn_core.trees.levels import levels_of, tree_along


def _setting(component: Component) -> tuple[Any, Tensor, Tensor] | None:
    """The encoder with plain parts, inputs and their mask; ``None`` if it does not declare the ability."""
    torch.manual_seed(0)
    encoder, mask = build(component, seed=0, **encoder_arguments(WIDTH)), padded()
    return (encoder, random(*mask.shape, WIDTH), mask) if encoder.tree_supervision else None


def check_encoder_composes_along_sampled_trees(component: Component) -> None:
    """Composing along the levels that ``sample``, where declared, returns gives the vectors that it returns."""
    if (setting := _setting(component)) is None:
        return
    encoder, inputs, mask = setting
    sampled = encoder.sample(inputs, mask, 2.0)
    levels = sampled.levels
    assert levels is not None, "sample gives no levels"
    assert levels.shape == mask.shape and levels.dtype == torch.long, (
        f"levels are {levels.dtype} {list(levels.shape)}; expected torch.int64 {list(mask.shape)}"
    )
    assert not sampled.vector.requires_grad, "sampled vectors require gradients"
    same(encoder(inputs, mask, levels=levels).vector, sampled.vector, "composed along the sampled trees")


def check_encoder_samples_one_tree_without_noise(component: Component) -> None:
    """Without noise ``sample``, where declared, always gives the same tree, in a batch as alone."""
    if (setting := _setting(component)) is None:
        return
    encoder, inputs, mask = setting
    together = encoder.sample(torch.where(mask.unsqueeze(-1), inputs, torch.nan), mask, 0.0)
    again = encoder.sample(inputs, mask, 0.0)
    assert torch.equal(again.levels, together.levels), "a second call without noise gives other trees"
    for row, n in enumerate(mask.sum(1).tolist()):
        alone = encoder.sample(inputs[row : row + 1, :n], mask[row : row + 1, :n], 0.0)
        assert torch.equal(alone.levels[0], together.levels[row, :n]), (
            f"alone, sequence {row} has another tree"
        )
        same(together.vector[row], alone.vector[0], f"the vector of sequence {row}")


def check_encoder_samples_within_the_cohesion(component: Component) -> None:
    """``sample``, where declared, keeps tokens together whose cohesion is higher than that around them."""
    if (setting := _setting(component)) is None:
        return
    encoder, inputs, mask = setting
    nested = torch.arange(mask.shape[1]).expand_as(mask)  # each token holds on to all behind it
    pairs = nested % 2  # the second token to the third, the fourth to the fifth, ...
    for cohesion in (nested, pairs):
        levels = encoder.sample(inputs, mask, 2.0, cohesion=cohesion).levels
        for row, n in enumerate(mask.sum(1).tolist()):
            starts = range(1, n - 1, 2)
            kept = {(start, start + 2 if cohesion is pairs else n) for start in starts}
            found = tree_along(levels[row].tolist(), ["token"] * n).spans()
            assert kept <= found, f"sequence {row}: tokens {sorted(kept - found)} are no constituents"


def check_encoder_supervises_its_decisions(component: Component) -> None:
    """The decision loss along trees, where declared, is [B], finite and not negative, and has a gradient."""
    if (setting := _setting(component)) is None:
        return
    encoder, inputs, mask = setting
    trees = [Tree.joining(["token"] * n, range(n - 1)) for n in mask.sum(1).tolist()]
    for context, where in ((nullcontext(), ""), (half_precision(), " under autocast")):
        with context:
            loss = encoder.train()(inputs, mask, levels=levels_of(trees, mask)).decision_loss
        assert loss is not None, "there is no decision_loss"
        assert loss.shape == mask.shape[:1], f"decision_loss is {list(loss.shape)}; expected {[len(mask)]}"
        finite(loss, f"decision_loss{where}")
        assert bool((loss >= 0).all()), (
            f"decision_loss is {loss.min():.3g}; log-likelihoods cannot be positive"
        )
        assert loss.requires_grad, "decision_loss has no gradient"
        gradients = torch.autograd.grad(loss.sum(), list(encoder.parameters()), allow_unused=True)
        for gradient in filter(lambda found: found is not None, gradients):
            finite(gradient, f"the gradient of decision_loss{where}")
        assert any(found is not None and bool(found.any()) for found in gradients), (
            f"the gradient of decision_loss{where} is 0 everywhere"
        )


SUPERVISION_CHECKS: tuple[Check, ...] = (
    check_encoder_composes_along_sampled_trees,
    check_encoder_samples_one_tree_without_noise,
    check_encoder_samples_within_the_cohesion,
    check_encoder_supervises_its_decisions,
)
