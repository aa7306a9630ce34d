"""RL-SPINN against a plain stack, one sequence at a time, and against all action sequences there are."""

import random

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from crvnn_parts.cells.lstm import LSTMCell
from crvnn_parts.encoders.reinforced import rl_spinn
from crvnn_parts.encoders.reinforced.rl_spinn import RLSPINN
from enumeration import WIDTH, assert_expected_gradients, model_with, outcomes, scripted
from slow_twins import assert_same, padded

LENGTHS = [5, 1, 7, 2, 4]


def encoder_of(seed=0, **settings):
    torch.manual_seed(seed)
    return RLSPINN(WIDTH, LSTMCell(WIDTH), **settings).double()


def actions_of(length, draw):
    """Valid actions for a sequence: whether to reduce, by ``draw`` where both are possible."""
    depth, shifted, actions = 0, 0, []
    for _ in range(2 * length - 1):
        reduce = draw() if depth > 1 and shifted < length else depth > 1
        depth, shifted = (depth - 1, shifted) if reduce else (depth + 1, shifted + 1)
        actions.append(reduce)
    return actions


def all_actions(length):
    """Every valid sequence of actions."""
    found, open_ = set(), [[]]
    while open_:
        given = open_.pop()
        draws = iter(given)
        try:
            found.add(tuple(actions_of(length, lambda: next(draws))))  # noqa: B023
        except StopIteration:
            open_ += [[*given, True], [*given, False]]
    return sorted(found)


def slow(encoder, inputs, actions):
    """The root of one sequence [n, d], and the log-probability of its actions."""
    nothing = torch.zeros(2 * WIDTH, dtype=inputs.dtype)
    queue, stack, memory, chance = list(encoder.cell.leaf(inputs)), [], None, 0
    for reduce in actions:
        top, second = ([nothing, nothing, *stack][-1], [nothing, nothing, *stack][-2])
        seen = [state[:WIDTH] for state in (top, second, queue[0] if queue else nothing)]
        memory = encoder.tracker(torch.cat(seen).unsqueeze(0), memory)
        reducing = torch.sigmoid(encoder.score(memory[0])[0, 0])
        if len(stack) > 1 and queue:
            chance = chance + torch.log(reducing if reduce else 1 - reducing)
        if reduce:
            right, left = stack.pop(), stack.pop()
            stack.append(encoder.cell(left, right))
        else:
            stack.append(queue.pop(0))
    (root,) = stack
    assert not queue
    return root, torch.as_tensor(chance, dtype=inputs.dtype)


def test_roots_log_probabilities_and_gradients_are_those_of_a_plain_stack():
    encoder, (inputs, mask), rng = encoder_of(), padded(LENGTHS, WIDTH), random.Random(3)
    actions = [actions_of(n, lambda: rng.random() < 0.5) for n in LENGTHS]
    longest = 2 * max(LENGTHS) - 1
    parse = encoder.parse(inputs, mask, scripted(*(row + [True] * (longest - len(row)) for row in actions)))
    roots, chances = zip(
        *(slow(encoder, x[:n], row) for x, n, row in zip(inputs, LENGTHS, actions, strict=True)), strict=True
    )
    assert_same(
        encoder,
        inputs,
        [parse.root, parse.log_probability],
        [torch.stack(roots), torch.stack(chances)],
    )


@pytest.mark.parametrize("length", [2, 5])
def test_the_probabilities_of_all_trees_sum_to_1(length):
    encoder, every = encoder_of(), all_actions(length)
    assert len(every) == [1, 1, 2, 5, 14][length - 1]  # Catalan numbers
    inputs = torch.randn(1, length, WIDTH, dtype=torch.double).expand(len(every), -1, -1)
    mask = torch.ones(len(every), length, dtype=torch.bool)
    chances = encoder.parse(inputs, mask, scripted(*every)).log_probability.exp()
    assert chances.sum().item() == pytest.approx(1)
    assert bool((chances > 0).all())


@pytest.mark.parametrize("baseline", ["mean", "greedy"])
def test_the_expected_gradient_is_that_of_the_expected_cost(monkeypatch, baseline):
    model, every = model_with(encoder_of(baseline=baseline)), all_actions(4)
    model.encoder.relative_cost(torch.tensor([0.7, 1.1]), None)
    monkeypatch.setattr(rl_spinn, "_sampled", scripted(*every))
    output, labels = outcomes(model, "abca", len(every))
    assert (output.baseline is not None) == (baseline == "greedy")
    assert_expected_gradients(model, output, labels, "encoder.tracker.weight_ih")


def test_actions_are_sampled_with_their_probabilities():
    encoder, every = encoder_of(1), all_actions(3)
    with torch.no_grad():
        encoder.score.bias.fill_(1.0)
        inputs = torch.randn(1, 3, WIDTH, dtype=torch.double).expand(2000, -1, -1)
        mask = torch.ones(2000, 3, dtype=torch.bool)
        chances = encoder.parse(inputs[:2], mask[:2], scripted(*every)).log_probability.exp()
        torch.manual_seed(5)
        sampled = encoder.train()(inputs, mask).log_probability.exp()
    assert 0.1 < chances.min() < 0.4  # so that the test can tell them apart
    for chance in chances:
        assert torch.isclose(sampled, chance).double().mean().item() == pytest.approx(chance.item(), abs=0.04)


def test_evaluation_draws_no_random_numbers_and_learns_nothing():
    encoder, batch = encoder_of().eval(), padded(LENGTHS, WIDTH)
    before = torch.random.get_rng_state()
    encoding = encoder(*batch)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert encoding.log_probability is None
    assert encoding.penalty.tolist() == [0] * len(LENGTHS)
    assert encoding.steps.tolist() == [2 * n - 1 for n in LENGTHS]


def test_the_bonus_is_on_the_entropy_of_free_actions():
    encoder, (inputs, mask) = encoder_of(entropy=2.0).train(), padded([1, 2, 3], WIDTH)
    with torch.no_grad():
        encoder.score.weight.zero_()
        encoder.score.bias.fill_(1.0)
    chance = F.sigmoid(torch.tensor(1.0))
    entropy = -(chance * chance.log() + (1 - chance) * (1 - chance).log()).item()
    assert encoder(inputs, mask).penalty.tolist() == pytest.approx([0, 0, -2 * entropy])
