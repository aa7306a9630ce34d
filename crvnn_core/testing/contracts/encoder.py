"""The contract of encoders."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from attrs import evolve
from torch import Tensor

from crvnn_core.errors import InputError
from crvnn_core.host.component import Component
from crvnn_core.interfaces import Encoder, Encoding
from crvnn_core.testing import generic
from crvnn_core.testing.common import (
    TOLERANCE,
    WIDTH,
    build,
    finite,
    gradients_reach,
    probabilities,
    random,
    same,
    shaped,
)
from crvnn_core.testing.generic import Modules, Sequences, sequences
from crvnn_core.testing.parts import encoder_arguments
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of, tree_along


class Encoders(Modules):
    """Encoders, each built with a plain part for whatever slot it asks for."""

    slot = "encoder"
    without = ("ignores_positions_that_are_gone",)
    by_position = False
    leaves = ("vectors",)
    padding = torch.nan
    calls = 3
    options: ClassVar[dict[str, Any]] = {}

    def run(self, module: Encoder, batch: Sequences) -> dict[str, Tensor]:
        """All that training can take a gradient of, and the number of steps."""
        encoding = module(batch.vectors, batch.mask, **self.options)
        found = {
            "the vector": encoding.vector,
            "the penalty": encoding.penalty,
            "the number of steps": encoding.steps,
            "log_probability": encoding.log_probability,
        }
        return {name: values for name, values in found.items() if values is not None}

    def build(self, component: Component, seed: int = 0) -> Any:
        encoder = build(component, seed=seed, **encoder_arguments(WIDTH))
        if isinstance(encoder, Encoder) and encoder.needs_trees:
            encoder.forward = partial(_along_random_trees, encoder.forward)  # type: ignore[method-assign]
        return encoder


class _HardEncoders(Encoders):
    options: ClassVar[dict[str, Any]] = {"hard": True}


MODULES = Encoders()


def _along_random_trees(
    forward: Callable[..., Encoding], inputs: Tensor, mask: Tensor, **options: Any
) -> Encoding:
    """Encode along random trees, which depend on the length of a sequence alone: it has the same in every batch."""
    if mask.is_meta:  # shapes only
        return forward(inputs, mask, levels=torch.zeros_like(mask, dtype=torch.long), **options)
    one = mask.clone()
    one[:, 0] = True  # an empty sequence, which an encoder refuses, has no tree
    trees = []
    for length in one.sum(1).tolist():
        order = torch.randperm(length - 1, generator=torch.Generator().manual_seed(length))
        trees.append(Tree.joining(["token"] * length, order.tolist()))
    return forward(inputs, mask, levels=levels_of(trees, one), **options)


def _setting(component: Component) -> tuple[Any, Tensor, Tensor]:
    """The encoder, inputs and their mask."""
    batch = sequences()
    return MODULES.build(component), batch.vectors, batch.mask


def check_encoder_gives_one_vector_a_sequence(component: Component) -> None:
    """Vectors are [B, encoder.width], penalties and steps [B], all finite."""
    encoder, inputs, mask = _setting(component)
    encoding = encoder(inputs, mask)
    shaped(encoding.vector, (len(mask), encoder.width), "the shape of the vectors")
    shaped(encoding.penalty, mask.shape[:1], "the shape of the penalty")
    shaped(encoding.steps, mask.shape[:1], "the shape of the steps")
    finite(encoding.vector, "a vector")
    finite(encoding.penalty, "a penalty")


def check_encoder_sees_every_token(component: Component) -> None:
    """The vector of a sequence depends on each of its tokens, and its gradient is finite."""
    encoder, inputs, mask = _setting(component)
    vector = encoder(inputs.requires_grad_(), mask).vector
    vector.sum().backward()
    finite(inputs.grad, "the gradient of the input")
    for row, position in mask.nonzero().tolist():
        changed = inputs.detach().clone()
        changed[row, position] += 5 * random(WIDTH, seed=11)
        moved = (encoder(changed, mask).vector[row] - vector[row]).abs().max()
        assert bool(moved > 0), f"the vector of sequence {row} does not depend on its token {position}"


def check_encoder_refuses_what_it_cannot_encode(component: Component) -> None:
    """An empty sequence, and NaN in the input, are errors that say which sequence."""
    encoder, inputs, mask = _setting(component)
    nan, empty = inputs.clone(), mask.clone()
    nan[2, 1, 0] = torch.nan
    empty[1] = False
    for bad, row in (((nan, mask), 2), ((inputs, empty), 1)):
        try:
            encoder(*bad)
        except InputError as error:
            assert f"sequence {row}" in str(error), f"the message does not name sequence {row}: {error}"
        else:
            raise AssertionError(
                "no InputError was raised; call crvnn_core.checked_lengths(inputs, mask) first"
            )


def check_encoder_traces_truly(component: Component) -> None:
    """A trace, where it gives one, has probabilities of the right shapes, and asking for it changes nothing."""
    encoder, inputs, mask = _setting(component)
    traced = encoder(inputs, mask, trace=True)
    same(traced.vector, encoder(inputs, mask).vector, "the vector, traced", 0)
    if (trace := traced.trace) is not None:
        k = int(trace.steps.max())
        probabilities(trace.compose, (k, *mask.shape), ~mask, "c", "under padding")
        probabilities(trace.exists, (k + 1, *mask.shape), ~mask, "e", "under padding")


def check_encoder_joins_every_position_once(component: Component) -> None:
    """Joins, where it gives them, are the positions 0 to n - 2 of each sequence of n tokens, every one once."""
    encoder, inputs, mask = _setting(component)
    _expect_joins(encoder(inputs, mask, trace=True), mask)


def _expect_joins(encoding: Encoding, mask: Tensor) -> None:
    if (joins := encoding.joins) is None:
        return
    assert len(joins) == len(mask), f"there are joins of {len(joins)} sequences; expected {len(mask)}"
    for row, (positions, n) in enumerate(zip(joins, mask.sum(1).tolist(), strict=True)):
        assert all(isinstance(position, int) for position in positions), (
            f"the joins of sequence {row} are not integers: {list(positions)}"
        )
        assert sorted(positions) == list(range(n - 1)), (
            f"sequence {row} has {n} tokens and the joins {list(positions)}; expected 0 to {n} - 2, each once"
        )


def check_encoder_works_under_autocast(component: Component) -> None:
    """Under autocast vectors are close, even of bfloat16 inputs, and gradients finite."""
    encoder, batch = MODULES.build(component), sequences()
    batch = evolve(batch, vectors=batch.vectors.bfloat16())
    exact = encoder(batch.vectors.float(), batch.mask).vector
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(encoder(batch.vectors, batch.mask).vector.float(), exact, "in bfloat16", tolerance=0.1)
        loss = MODULES.loss(encoder.train(), batch)
    gradients_reach(encoder, loss)


def check_encoder_keeps_its_step_limit(component: Component) -> None:
    """No sequence takes more steps than ``step_limit``, where it is declared, allows for its length."""
    encoder, inputs, mask = _setting(component)
    steps = encoder(inputs, mask).steps.tolist()
    for row, (taken, n) in enumerate(zip(steps, mask.sum(1).tolist(), strict=True)):
        limit = encoder.step_limit(n)
        assert limit is None or taken <= limit, (
            f"sequence {row} took {taken} steps; step_limit({n}) is {limit}"
        )


def check_encoder_infers_hard_alone_as_in_a_batch(component: Component) -> None:
    """Hard inference, where declared, treats a sequence in a padded batch, even with NaN for padding, as alone."""
    if MODULES.build(component).hard_inference:
        hard = _HardEncoders()
        generic.treats_each_sequence_alone(hard, component)
        generic.ignores_padding(hard, component)


def check_encoder_infers_hard_without_gradients(component: Component) -> None:
    """Hard inference, where declared, gives the same finite vectors under ``torch.inference_mode``."""
    encoder, inputs, mask = _setting(component)
    if encoder.hard_inference:
        vector = encoder(inputs, mask, hard=True).vector
        with torch.inference_mode():
            same(encoder(inputs, mask, hard=True).vector, vector.detach(), "under inference_mode")
        finite(vector, "a vector of hard inference")


def check_encoder_infers_hard_along_one_tree(component: Component) -> None:
    """Hard inference, where declared, traces binary c and e that end with one token, or joins of every token."""
    encoder, inputs, mask = _setting(component)
    if not encoder.hard_inference:
        return
    encoding = encoder(inputs, mask, trace=True, hard=True)
    if (trace := encoding.trace) is not None:
        for what, values in (("c", trace.compose), ("e", trace.exists)):
            assert bool(((values == 0) | (values == 1)).all()), f"{what} of hard inference is neither 0 nor 1"
        left = trace.exists[-1].sum(1).tolist()
        assert left == [1] * len(mask), (
            f"at the end {left} tokens exist; hard inference leaves one of each sequence"
        )
    _expect_joins(encoding, mask)


def check_encoder_shows_neighbours_as_probabilities(component: Component) -> None:
    """Neighbours, where given, are [n, n] probabilities of existing tokens on that side, at most 1 in sum a row."""
    encoder = MODULES.build(component)
    for exists in (torch.tensor([1.0, 0.0, 0.3, 1.0, 0.8]), torch.ones(1)):
        for hard in (False, True) if encoder.hard_inference else (False,):
            present = (exists > 0.5).to(exists.dtype) if hard else exists
            found = encoder.neighbours(present, hard=hard)
            if found is None:
                return
            for side, weights in zip(("left", "right"), found, strict=True):
                n, what = len(exists), f"neighbours to the {side}{' in hard inference' if hard else ''}"
                shaped(weights, (n, n), what)
                assert bool((weights >= 0).all()), f"{what} have negative weights"
                total = weights.sum(1).max().item()
                assert total <= 1 + TOLERANCE, f"{what} have weights that sum to {total:.3g} in a row"
                wrong = weights.triu() if side == "left" else weights.tril()
                assert not wrong.any(), f"{what} have weight on the token itself, or on the other side"
                assert not weights[:, present == 0].any(), f"{what} have weight on tokens that do not exist"


def check_encoder_composes_along_sampled_trees(component: Component) -> None:
    """Composing along the levels that ``sample``, where declared, returns gives the vectors that it returns."""
    encoder, inputs, mask = _setting(component)
    if not encoder.tree_supervision:
        return
    sampled = encoder.sample(inputs, mask, 2.0)
    levels = sampled.levels
    assert levels is not None, "sample gives no levels"
    shaped(levels, mask.shape, "the shape of the levels")
    assert levels.dtype == torch.long, f"levels are {levels.dtype}; expected torch.int64"
    assert not sampled.vector.requires_grad, "sampled vectors require gradients"
    same(encoder(inputs, mask, levels=levels).vector, sampled.vector, "composed along the sampled trees")


def check_encoder_samples_one_tree_without_noise(component: Component) -> None:
    """Without noise ``sample``, where declared, always gives the same tree, in a batch as alone."""
    encoder, inputs, mask = _setting(component)
    if not encoder.tree_supervision:
        return
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
    encoder, inputs, mask = _setting(component)
    if not encoder.tree_supervision:
        return
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
    encoder, inputs, mask = _setting(component)
    if not encoder.tree_supervision:
        return
    trees = [Tree.joining(["token"] * n, range(n - 1)) for n in mask.sum(1).tolist()]
    for autocast in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = encoder.train()(inputs, mask, levels=levels_of(trees, mask)).decision_loss
        what = f"decision_loss{' under autocast' * autocast}"
        finite(loss, what)
        shaped(loss, mask.shape[:1], f"the shape of {what}")
        assert bool((loss >= 0).all()), f"{what} is {loss.min():.3g}; log-likelihoods cannot be positive"
        assert loss.requires_grad, f"{what} has no gradient"
        found = torch.autograd.grad(loss.sum(), list(encoder.parameters()), allow_unused=True)
        gradients = [gradient for gradient in found if gradient is not None]
        for gradient in gradients:
            finite(gradient, f"the gradient of {what}")
        assert any(bool(gradient.any()) for gradient in gradients), f"the gradient of {what} is 0 everywhere"


def check_encoder_samples_in_training_only(component: Component) -> None:
    """Log-probabilities of sampled decisions, where given, are [B], at most 0, and not given in evaluation."""
    encoder, inputs, mask = _setting(component)
    chances = encoder.train()(inputs, mask).log_probability
    if chances is not None:
        shaped(chances, mask.shape[:1], "the shape of log_probability")
        finite(chances, "log_probability")
        assert bool((chances <= 0).all()), f"log_probability is {chances.max():.3g}; it cannot be positive"
        assert chances.requires_grad, "log_probability has no gradient"
    evaluated = encoder.eval()(inputs, mask)
    assert evaluated.log_probability is None and evaluated.baseline is None, (
        "log_probability or baseline is given in evaluation, where nothing is learnt; use self.training"
    )


def check_encoder_gives_baselines_without_gradients(component: Component) -> None:
    """Baselines, where given, are like the vectors, without gradient, and come with log-probabilities."""
    encoder, inputs, mask = _setting(component)
    encoding = encoder.train()(inputs, mask)
    if (baseline := encoding.baseline) is None:
        return
    assert encoding.log_probability is not None, "there is a baseline, but no log_probability"
    shaped(baseline, encoding.vector.shape, "the shape of the baselines")
    assert not baseline.requires_grad, "baselines require gradients; compute them under torch.no_grad()"
    finite(baseline, "a baseline")


def check_encoder_weighs_its_costs(component: Component) -> None:
    """``relative_cost`` of the encodings' costs is [B] and finite, in the first batch of training and later."""
    encoder, inputs, mask = _setting(component)
    encoding = encoder.train()(inputs, mask)
    if encoding.log_probability is None:
        return
    cost = random(len(mask)).abs()
    baseline = None if encoding.baseline is None else random(len(mask), seed=2).abs()
    for size in (len(mask), len(mask), 1):
        relative = encoder.relative_cost(cost[:size], None if baseline is None else baseline[:size])
        shaped(relative, (size,), "the shape of relative_cost")
        finite(relative, "relative_cost")
