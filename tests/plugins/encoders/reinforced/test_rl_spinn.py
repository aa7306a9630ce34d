"""RL-SPINN against a plain stack, one sequence at a time, and against all action sequences there are."""

import random

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from crvnn_core.testing.parts import BracketingCell
from crvnn_core.trees import trees_of
from crvnn_parts.cells.lstm import LSTMCell
from crvnn_parts.encoders.reinforced import rl_spinn
from crvnn_parts.encoders.reinforced.rl_spinn import RLSPINN
from enumeration import WIDTH, assert_expected_gradients, model_with, outcomes, scripted

LENGTHS = [5, 1, 7, 2, 4]


def encoder_of(seed=0, **settings):
    torch.manual_seed(seed)
    return RLSPINN(WIDTH, LSTMCell(WIDTH), **settings).double()


def batch_of(lengths=LENGTHS):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.randn(*mask.shape, WIDTH, dtype=torch.double), mask


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
    encoder, (inputs, mask), rng = encoder_of(), batch_of(), random.Random(3)
    inputs.requires_grad_()
    actions = [actions_of(n, lambda: rng.random() < 0.5) for n in LENGTHS]
    longest = 2 * max(LENGTHS) - 1
    parse = encoder.parse(inputs, mask, scripted(*(row + [True] * (longest - len(row)) for row in actions)))
    roots, chances = zip(
        *(slow(encoder, x[:n], row) for x, n, row in zip(inputs, LENGTHS, actions, strict=True)), strict=True
    )
    torch.testing.assert_close(parse.root, torch.stack(roots))
    torch.testing.assert_close(parse.log_probability, torch.stack(chances))
    weights = torch.randn(len(LENGTHS), 2 * WIDTH, dtype=torch.double)
    wanted = [inputs, *encoder.parameters()]
    ours, theirs = (
        torch.autograd.grad((root * weights).sum() + (chance * weights[:, 0]).sum(), wanted)
        for root, chance in (
            (parse.root, parse.log_probability),
            (torch.stack(roots), torch.stack(chances)),
        )
    )
    for one, two in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, two)


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


def test_the_joins_are_the_tree_that_was_composed():
    torch.manual_seed(0)
    tokens = list("abcdefg")
    cell = BracketingCell(WIDTH, tokens)
    for _ in range(5):
        encoder = RLSPINN(WIDTH, cell).eval()
        with torch.no_grad():
            encoder.score.weight.mul_(30)
        mask = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)
        inputs = torch.zeros(*mask.shape, WIDTH)
        inputs[..., 0] = torch.arange(7)
        encoding = encoder(inputs, mask, trace=True)
        trees = trees_of(encoding, [tokens[:n] for n in LENGTHS])
        for vector, tree in zip(encoding.vector, trees, strict=True):
            assert str(tree.nested()).replace("'", "").replace(",", "") == cell.name(vector)


def test_evaluation_draws_no_random_numbers_and_learns_nothing():
    encoder, batch = encoder_of().eval(), batch_of()
    before = torch.random.get_rng_state()
    encoding = encoder(*batch)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert encoding.log_probability is None
    assert encoding.penalty.tolist() == [0] * len(LENGTHS)
    assert encoding.steps.tolist() == [2 * n - 1 for n in LENGTHS]


def test_the_bonus_is_on_the_entropy_of_free_actions():
    encoder, (inputs, mask) = encoder_of(entropy=2.0).train(), batch_of([1, 2, 3])
    with torch.no_grad():
        encoder.score.weight.zero_()
        encoder.score.bias.fill_(1.0)
    chance = F.sigmoid(torch.tensor(1.0))
    entropy = -(chance * chance.log() + (1 - chance) * (1 - chance).log()).item()
    assert encoder(inputs, mask).penalty.tolist() == pytest.approx([0, 0, -2 * entropy])


def test_a_bad_setting_is_named():
    for settings in ({"baseline": "median"}, {"tracker_width": -1}, {"entropy": -0.1}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            RLSPINN(WIDTH, LSTMCell(WIDTH), **settings)
