"""The contract of encoders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

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
    Check,
    finite,
    gradients_reach,
    half_precision,
    padded,
    random,
    same,
)
from crvnn_core.testing.generic import Kind, Sequences, sequences
from crvnn_core.testing.parts import encoder_arguments
from crvnn_core.trees import Tree
from crvnn_core.trees.gold import levels_of, tree_along


def _run(encoder: Encoder, batch: Sequences) -> dict[str, Tensor]:
    return _results(encoder(batch.vectors, batch.mask))


def _results(encoding: Encoding) -> dict[str, Tensor]:
    """All that training can take a gradient of, and the number of steps."""
    found = {
        "the vector": encoding.vector,
        "the penalty": encoding.penalty,
        "the number of steps": encoding.steps,
    }
    sampled = encoding.log_probability
    return found if sampled is None else {**found, "log_probability": sampled}


#: An encoder, with a plain part for whatever slot it asks for.
ENCODER = Kind(
    "encoder",
    _run,
    by_position=False,
    available=lambda: encoder_arguments(WIDTH),
    leaves=("vectors",),
    padding=torch.nan,
    calls=3,
)
HARD = evolve(ENCODER, run=lambda encoder, batch: _results(encoder(batch.vectors, batch.mask, hard=True)))


def check_encoder_gives_one_vector_a_sequence(component: Component) -> None:
    """Vectors are [B, encoder.width], penalties and steps [B], all finite."""
    mask = padded()
    encoder = ENCODER.build(component)
    encoding = encoder(random(*mask.shape, WIDTH), mask)
    assert encoding.vector.shape == (len(mask), encoder.width), f"vectors are {list(encoding.vector.shape)}"
    assert encoding.penalty.shape == encoding.steps.shape == (len(mask),), "penalty and steps must be [B]"
    finite(encoding.vector, "a vector")
    finite(encoding.penalty, "a penalty")


def check_encoder_sees_every_token(component: Component) -> None:
    """The vector of a sequence depends on each of its tokens, and its gradient is finite."""
    mask = padded()
    encoder = ENCODER.build(component)
    inputs = random(*mask.shape, WIDTH).requires_grad_()
    vector = encoder(inputs, mask).vector
    vector.sum().backward()
    finite(inputs.grad, "the gradient of the input")
    for row, position in mask.nonzero().tolist():
        changed = inputs.detach().clone()
        changed[row, position] += 5 * random(WIDTH, seed=11)
        moved = (encoder(changed, mask).vector[row] - vector[row]).abs().max()
        assert bool(moved > 0), f"the vector of sequence {row} does not depend on its token {position}"


def check_encoder_refuses_what_it_cannot_encode(component: Component) -> None:
    """An empty sequence, and NaN in the input, are errors that say which sequence."""
    encoder, mask = ENCODER.build(component), padded()
    inputs = random(*mask.shape, WIDTH)
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
    mask = padded()
    encoder, inputs = ENCODER.build(component), random(*mask.shape, WIDTH)
    traced = encoder(inputs, mask, trace=True)
    same(traced.vector, encoder(inputs, mask).vector, "the vector, traced", 0)
    trace = traced.trace
    if trace is None:
        return
    k = len(trace.compose)
    assert trace.compose.shape == (k, *mask.shape), f"compose is {list(trace.compose.shape)}"
    assert trace.exists.shape == (k + 1, *mask.shape), f"exists is {list(trace.exists.shape)}"
    assert k == int(trace.steps.max()), f"{k} steps are traced, but {int(trace.steps.max())} were taken"
    for what, values in (("c", trace.compose), ("e", trace.exists)):
        assert bool(((values >= 0) & (values <= 1)).all()), f"{what} is not a probability"
        assert bool((values[:, ~mask] == 0).all()), f"{what} is not 0 under padding"


def check_encoder_joins_every_position_once(component: Component) -> None:
    """Joins, where it gives them, are the positions 0 to n - 2 of each sequence of n tokens, every one once."""
    mask = padded()
    joins = ENCODER.build(component)(random(*mask.shape, WIDTH), mask, trace=True).joins
    if joins is None:
        return
    _expect_joins(joins, mask)


def _expect_joins(joins: Sequence[Sequence[int]], mask: Tensor) -> None:
    assert len(joins) == len(mask), f"there are joins of {len(joins)} sequences; expected {len(mask)}"
    for row, (positions, n) in enumerate(zip(joins, mask.sum(1).tolist(), strict=True)):
        assert all(isinstance(position, int) for position in positions), (
            f"the joins of sequence {row} are not whole numbers: {list(positions)}"
        )
        assert sorted(positions) == list(range(n - 1)), (
            f"sequence {row} has {n} tokens and the joins {list(positions)}; expected 0 to {n} - 2, each once"
        )


def check_encoder_works_under_autocast(component: Component) -> None:
    """Under autocast vectors are close, even of bfloat16 inputs, and gradients finite."""
    encoder, batch = ENCODER.build(component), sequences()
    batch = evolve(batch, vectors=batch.vectors.bfloat16())
    exact = encoder(batch.vectors.float(), batch.mask).vector
    with half_precision():
        same(encoder(batch.vectors, batch.mask).vector.float(), exact, "in bfloat16", tolerance=0.1)
        loss = ENCODER.loss(encoder.train(), batch)
    gradients_reach(encoder, loss)


def check_encoder_keeps_its_step_limit(component: Component) -> None:
    """No sequence takes more steps than ``step_limit``, where it is declared, allows for its length."""
    mask = padded()
    encoder = ENCODER.build(component)
    steps = encoder(random(*mask.shape, WIDTH), mask).steps.tolist()
    for row, (taken, n) in enumerate(zip(steps, mask.sum(1).tolist(), strict=True)):
        limit = encoder.step_limit(n)
        assert limit is None or taken <= limit, (
            f"sequence {row} took {taken} steps; step_limit({n}) is {limit}"
        )


def check_encoder_infers_hard_alone_as_in_a_batch(component: Component) -> None:
    """Hard inference, where declared, treats a sequence in a padded batch, even with NaN for padding, as alone."""
    if ENCODER.build(component).hard_inference:
        generic.treats_each_sequence_alone(HARD, component)
        generic.ignores_padding(HARD, component)


def check_encoder_infers_hard_without_gradients(component: Component) -> None:
    """Hard inference, where declared, gives the same finite vectors under ``torch.inference_mode``."""
    encoder, mask = ENCODER.build(component), padded()
    if not encoder.hard_inference:
        return
    inputs = random(*mask.shape, WIDTH)
    vector = encoder(inputs, mask, hard=True).vector
    with torch.inference_mode():
        same(encoder(inputs, mask, hard=True).vector, vector.detach(), "under inference_mode")
    finite(vector, "a vector of hard inference")


def check_encoder_infers_hard_along_one_tree(component: Component) -> None:
    """Hard inference, where declared, traces binary c and e that end with one token, or joins of every token."""
    encoder, mask = ENCODER.build(component), padded()
    if not encoder.hard_inference:
        return
    encoding = encoder(random(*mask.shape, WIDTH), mask, trace=True, hard=True)
    trace, joins = encoding.trace, encoding.joins
    if trace is not None:
        for what, values in (("c", trace.compose), ("e", trace.exists)):
            assert bool(((values == 0) | (values == 1)).all()), f"{what} of hard inference is neither 0 nor 1"
        left = trace.exists[-1].sum(1).tolist()
        assert left == [1] * len(mask), (
            f"at the end {left} tokens exist; hard inference leaves one of each sequence"
        )
    if joins is not None:
        _expect_joins(joins, mask)


def check_encoder_shows_neighbours_as_probabilities(component: Component) -> None:
    """Neighbours, where given, are [n, n] probabilities of existing tokens on that side, at most 1 in sum a row."""
    encoder = ENCODER.build(component)
    for exists in (torch.tensor([1.0, 0.0, 0.3, 1.0, 0.8]), torch.ones(1)):
        for hard in (False, True) if encoder.hard_inference else (False,):
            present = (exists > 0.5).to(exists.dtype) if hard else exists
            found = encoder.neighbours(present, hard=hard)
            if found is None:
                return
            for side, weights in zip(("left", "right"), found, strict=True):
                n, what = len(exists), f"neighbours to the {side}{' in hard inference' if hard else ''}"
                assert weights.shape == (n, n), f"{what} are {list(weights.shape)}; expected {[n, n]}"
                assert bool((weights >= 0).all()), f"{what} have negative weights"
                total = weights.sum(1).max().item()
                assert total <= 1 + TOLERANCE, f"{what} have weights that sum to {total:.3g} in a row"
                wrong = weights.triu() if side == "left" else weights.tril()
                assert not wrong.any(), f"{what} have weight on the token itself, or on the other side"
                assert not weights[:, present == 0].any(), f"{what} have weight on tokens that do not exist"


def _supervised(component: Component) -> tuple[Any, Tensor, Tensor] | None:
    """The encoder with plain parts, inputs and their mask; ``None`` if it does not declare the ability."""
    encoder, batch = ENCODER.build(component), sequences()
    return (encoder, batch.vectors, batch.mask) if encoder.tree_supervision else None


def check_encoder_composes_along_sampled_trees(component: Component) -> None:
    """Composing along the levels that ``sample``, where declared, returns gives the vectors that it returns."""
    if (setting := _supervised(component)) is None:
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
    if (setting := _supervised(component)) is None:
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
    if (setting := _supervised(component)) is None:
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
    if (setting := _supervised(component)) is None:
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


def _trained(component: Component) -> tuple[Any, Encoding]:
    """The encoder with plain parts, and an encoding of its in training."""
    encoder, batch = ENCODER.build(component).train(), sequences()
    return encoder, encoder(batch.vectors, batch.mask)


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


ENCODER_CHECKS: tuple[Check, ...] = (
    check_encoder_gives_one_vector_a_sequence,
    check_encoder_sees_every_token,
    check_encoder_refuses_what_it_cannot_encode,
    check_encoder_traces_truly,
    check_encoder_joins_every_position_once,
    check_encoder_keeps_its_step_limit,
    check_encoder_infers_hard_alone_as_in_a_batch,
    check_encoder_infers_hard_without_gradients,
    check_encoder_infers_hard_along_one_tree,
    check_encoder_shows_neighbours_as_probabilities,
    check_encoder_composes_along_sampled_trees,
    check_encoder_samples_one_tree_without_noise,
    check_encoder_samples_within_the_cohesion,
    check_encoder_supervises_its_decisions,
    check_encoder_samples_in_training_only,
    check_encoder_gives_baselines_without_gradients,
    check_encoder_weighs_its_costs,
    check_encoder_works_under_autocast,
    *ENCODER.checks(
        generic.treats_each_sequence_alone,
        generic.ignores_padding,
        generic.learns,
        generic.has_gradients_of_its_present_weights,
        generic.runs_on_any_device,
        generic.is_deterministic,
        generic.can_be_saved,
        generic.has_its_live_settings,
    ),
)
