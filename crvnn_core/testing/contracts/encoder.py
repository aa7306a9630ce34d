"""The contract of encoders."""

from __future__ import annotations

from typing import Any

import torch

from crvnn_core.errors import InputError
from crvnn_core.host.component import Component
from crvnn_core.testing.common import (
    TOLERANCE,
    UNSAVED,
    WIDTH,
    build,
    finite,
    gradients_are_those_of_the_present_weights,
    gradients_reach,
    half_precision,
    live_settings_exist,
    no_stray_tensors,
    padded,
    random,
    same,
    same_on_every_call,
    saved_and_loaded,
)
from crvnn_core.testing.contracts.abilities.reinforcement import REINFORCEMENT_CHECKS, total
from crvnn_core.testing.contracts.abilities.tree_supervision import SUPERVISION_CHECKS
from crvnn_core.testing.parts import encoder_arguments


def _encoder(component: Component, seed: int = 0) -> Any:
    """The encoder, with a plain part for whatever slot it asks for."""
    torch.manual_seed(seed)
    return build(component, seed=seed, **encoder_arguments(WIDTH))


def check_encoder_gives_one_vector_a_sequence(component: Component) -> None:
    """Vectors are [B, encoder.width], penalties and steps [B], all finite."""
    mask = padded()
    encoder = _encoder(component)
    encoding = encoder(random(*mask.shape, WIDTH), mask)
    assert encoding.vector.shape == (len(mask), encoder.width), f"vectors are {list(encoding.vector.shape)}"
    assert encoding.penalty.shape == encoding.steps.shape == (len(mask),), "penalty and steps must be [B]"
    finite(encoding.vector, "a vector")
    finite(encoding.penalty, "a penalty")


def check_encoder_treats_each_sequence_alone(component: Component) -> None:
    """A sequence in a padded batch gives the vector, the penalty and the steps that it gives alone."""
    mask = padded()
    encoder, inputs = _encoder(component), random(*padded().shape, WIDTH)
    together = encoder(inputs, mask)
    for row, n in enumerate(mask.sum(1).tolist()):
        alone = encoder(inputs[row : row + 1, :n], mask[row : row + 1, :n])
        same(together.vector[row], alone.vector[0], f"the vector of sequence {row}")
        same(together.penalty[row], alone.penalty[0], f"the penalty of sequence {row}")
        assert together.steps[row] == alone.steps[0], f"sequence {row} takes another number of steps alone"


def check_encoder_ignores_padding(component: Component) -> None:
    """Changing the input under the mask, even to NaN, and adding padding change nothing."""
    mask = padded()
    encoder, inputs = _encoder(component), random(*mask.shape, WIDTH)
    vector = encoder(inputs, mask).vector
    same(
        encoder(torch.where(mask.unsqueeze(-1), inputs, torch.nan), mask).vector,
        vector,
        "with NaN for padding",
    )
    more = torch.nn.functional.pad(inputs, (0, 0, 0, 3)), torch.nn.functional.pad(mask, (0, 3))
    same(encoder(*more).vector, vector, "with more padding")


def check_encoder_ignores_the_order_of_the_batch(component: Component) -> None:
    """Turning the batch round turns the results round and changes nothing else."""
    mask = padded()
    encoder, inputs = _encoder(component), random(*mask.shape, WIDTH)
    same(encoder(inputs.flip(0), mask.flip(0)).vector.flip(0), encoder(inputs, mask).vector, "turned round")


def check_encoder_sees_every_token(component: Component) -> None:
    """The vector of a sequence depends on each of its tokens, and its gradient is finite."""
    mask = padded()
    encoder = _encoder(component)
    inputs = random(*mask.shape, WIDTH).requires_grad_()
    vector = encoder(inputs, mask).vector
    vector.sum().backward()
    finite(inputs.grad, "the gradient of the input")
    for row, position in mask.nonzero().tolist():
        changed = inputs.detach().clone()
        changed[row, position] += 5 * random(WIDTH, seed=11)
        moved = (encoder(changed, mask).vector[row] - vector[row]).abs().max()
        assert bool(moved > 0), f"the vector of sequence {row} does not depend on its token {position}"


def check_encoder_learns(component: Component) -> None:
    """In training, gradients reach every parameter."""
    mask = padded()
    encoder = _encoder(component).train()
    gradients_reach(encoder, total(encoder(random(*mask.shape, WIDTH), mask)))


def check_encoder_has_gradients_of_its_present_weights(component: Component) -> None:
    """Gradients are right while earlier graphs live and after weights have changed in place."""
    mask = padded()
    gradients_are_those_of_the_present_weights(
        lambda: _encoder(component),
        lambda encoder, inputs: (encoder(inputs, mask).vector * random(WIDTH)).sum(),
        random(*mask.shape, WIDTH),
    )


def check_encoder_refuses_what_it_cannot_encode(component: Component) -> None:
    """An empty sequence, and NaN in the input, are errors that say which sequence."""
    encoder, mask = _encoder(component), padded()
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
    encoder, inputs = _encoder(component), random(*mask.shape, WIDTH)
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
    joins = _encoder(component)(random(*mask.shape, WIDTH), mask, trace=True).joins
    if joins is None:
        return
    assert len(joins) == len(mask), f"there are joins of {len(joins)} sequences; expected {len(mask)}"
    for row, (positions, n) in enumerate(zip(joins, mask.sum(1).tolist(), strict=True)):
        assert all(isinstance(position, int) for position in positions), (
            f"the joins of sequence {row} are not whole numbers: {list(positions)}"
        )
        assert sorted(positions) == list(range(n - 1)), (
            f"sequence {row} has {n} tokens and the joins {list(positions)}; expected 0 to {n} - 2, each once"
        )


def check_encoder_runs_on_any_device(component: Component) -> None:
    """Every tensor is made on the device of the input."""
    with no_stray_tensors():
        encoder = _encoder(component).to("meta")
        mask = torch.ones(2, 5, dtype=torch.bool, device="meta")
        assert encoder(torch.rand(2, 5, WIDTH, device="meta"), mask).vector.is_meta


def check_encoder_works_under_autocast(component: Component) -> None:
    """Under autocast vectors are close, even of bfloat16 inputs, and gradients finite."""
    mask = padded()
    encoder, inputs = _encoder(component), random(*mask.shape, WIDTH)
    exact = encoder(inputs.bfloat16().float(), mask).vector
    with half_precision():
        same(encoder(inputs.bfloat16(), mask).vector.float(), exact, "in bfloat16", tolerance=0.1)
        trained = encoder.train()(inputs.bfloat16(), mask)
    gradients_reach(encoder, total(trained))


def check_encoder_is_deterministic(component: Component) -> None:
    """In evaluation the same input gives the same bits on every call."""
    mask = padded()
    encoder, inputs = _encoder(component), random(*mask.shape, WIDTH)
    same_on_every_call(lambda: encoder(inputs, mask).vector, calls=3)


def check_encoder_can_be_saved(component: Component) -> None:
    """After use in training, its saved weights give the same bits in another one."""
    mask = padded()
    one, two, inputs = _encoder(component).train(), _encoder(component, 9), random(*mask.shape, WIDTH)
    with torch.no_grad():
        for _ in range(3):
            one(inputs, mask)
    saved_and_loaded(one.eval(), two)
    same(two(inputs, mask).vector, one(inputs, mask).vector, UNSAVED, 0)


def check_encoder_keeps_its_step_limit(component: Component) -> None:
    """No sequence takes more steps than ``step_limit``, where it is declared, allows for its length."""
    mask = padded()
    encoder = _encoder(component)
    steps = encoder(random(*mask.shape, WIDTH), mask).steps.tolist()
    for row, (taken, n) in enumerate(zip(steps, mask.sum(1).tolist(), strict=True)):
        limit = encoder.step_limit(n)
        assert limit is None or taken <= limit, (
            f"sequence {row} took {taken} steps; step_limit({n}) is {limit}"
        )


def check_encoder_infers_hard_alone_as_in_a_batch(component: Component) -> None:
    """Hard inference, where declared, treats a sequence in a padded batch, even with NaN for padding, as alone."""
    encoder, mask = _encoder(component), padded()
    if not encoder.hard_inference:
        return
    inputs = random(*mask.shape, WIDTH)
    together = encoder(torch.where(mask.unsqueeze(-1), inputs, torch.nan), mask, hard=True)
    for row, n in enumerate(mask.sum(1).tolist()):
        alone = encoder(inputs[row : row + 1, :n], mask[row : row + 1, :n], hard=True)
        same(together.vector[row], alone.vector[0], f"the vector of sequence {row}")
        assert together.steps[row] == alone.steps[0], f"sequence {row} takes another number of steps alone"


def check_encoder_infers_hard_without_gradients(component: Component) -> None:
    """Hard inference, where declared, gives the same finite vectors under ``torch.inference_mode``."""
    encoder, mask = _encoder(component), padded()
    if not encoder.hard_inference:
        return
    inputs = random(*mask.shape, WIDTH)
    vector = encoder(inputs, mask, hard=True).vector
    with torch.inference_mode():
        same(encoder(inputs, mask, hard=True).vector, vector.detach(), "under inference_mode")
    finite(vector, "a vector of hard inference")


def check_encoder_infers_hard_along_one_tree(component: Component) -> None:
    """Hard inference, where declared, traces binary c and e that end with one token, or joins of every token."""
    encoder, mask = _encoder(component), padded()
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
        for row, (positions, n) in enumerate(zip(joins, mask.sum(1).tolist(), strict=True)):
            assert sorted(positions) == list(range(n - 1)), (
                f"sequence {row} of {n} tokens has joins {positions}"
            )


def check_encoder_shows_neighbours_as_probabilities(component: Component) -> None:
    """Neighbours, where given, are [n, n] probabilities of existing tokens on that side, at most 1 in sum a row."""
    encoder = _encoder(component)
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


def check_encoder_has_its_live_settings(component: Component) -> None:
    """Every name in ``live_settings`` is a parameter that a spec can set."""
    live_settings_exist(component, _encoder(component))


ENCODER_CHECKS = (
    check_encoder_gives_one_vector_a_sequence,
    check_encoder_treats_each_sequence_alone,
    check_encoder_ignores_padding,
    check_encoder_ignores_the_order_of_the_batch,
    check_encoder_sees_every_token,
    check_encoder_learns,
    check_encoder_has_gradients_of_its_present_weights,
    check_encoder_refuses_what_it_cannot_encode,
    check_encoder_traces_truly,
    check_encoder_joins_every_position_once,
    check_encoder_keeps_its_step_limit,
    check_encoder_infers_hard_alone_as_in_a_batch,
    check_encoder_infers_hard_without_gradients,
    check_encoder_infers_hard_along_one_tree,
    check_encoder_shows_neighbours_as_probabilities,
    *SUPERVISION_CHECKS,
    *REINFORCEMENT_CHECKS,
    check_encoder_runs_on_any_device,
    check_encoder_works_under_autocast,
    check_encoder_is_deterministic,
    check_encoder_can_be_saved,
    check_encoder_has_its_live_settings,
)
