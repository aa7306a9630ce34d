"""Encoders that sample trees: against plain lists of nodes, and against all trees that there are."""

import math
import random
from itertools import pairwise, product
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.encoders.reinforced import cooperative, rl_spinn
from crvnn_parts.encoders.reinforced.cooperative import Cooperative, compose
from crvnn_parts.encoders.reinforced.rl_spinn import RLSPINN
from enumeration import WIDTH, assert_expected_gradients, model_with, outcomes, scripted
from slow_twins import assert_same, padded

LENGTHS = [5, 1, 7, 2, 4]


def encoder_of(kind, seed=0, **settings):
    torch.manual_seed(seed)
    return kind(WIDTH, LSTMCell(WIDTH), **settings).double()


def batch_of():
    inputs, mask = padded(LENGTHS, WIDTH)
    return inputs.detach().masked_fill(~mask.unsqueeze(-1), 0).requires_grad_(), mask


# RL-SPINN: whether to reduce, action by action.


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


def spinn_slowly(encoder, inputs, actions):
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


def test_roots_log_probabilities_and_gradients_of_rl_spinn_are_those_of_a_plain_stack():
    encoder, (inputs, mask), rng = encoder_of(RLSPINN), padded(LENGTHS, WIDTH), random.Random(3)
    actions = [actions_of(n, lambda: rng.random() < 0.5) for n in LENGTHS]
    longest = 2 * max(LENGTHS) - 1
    parse = encoder.parse(inputs, mask, scripted(*(row + [True] * (longest - len(row)) for row in actions)))
    roots, chances = zip(
        *(spinn_slowly(encoder, x[:n], row) for x, n, row in zip(inputs, LENGTHS, actions, strict=True)),
        strict=True,
    )
    assert_same(
        encoder,
        inputs,
        [parse.root, parse.log_probability],
        [torch.stack(roots), torch.stack(chances)],
    )


# Cooperative: which position merges with its right neighbour, step by step.


def ends_of(length, ranks):
    """The positions that merge, of the ``ranks``-th nodes with their right neighbours."""
    ends, merged = list(range(length)), []
    for rank in ranks:
        merged.append(ends.pop(rank))
    return merged


def merge_slowly(encoder, inputs, merged):
    """The root of one sequence [n, d] along merges at these positions, their log-probability, and the entropies."""
    parser, chance, entropies = encoder.parser, torch.zeros((), dtype=inputs.dtype), []
    ends = list(range(len(inputs)))
    composed = list(encoder.cell.leaf(inputs))
    nodes = list(parser.cell.leaf(parser.lstm(parser.embed(inputs.detach()).unsqueeze(0))[0][0]))
    for end in merged:
        parents = [parser.cell(*pair) for pair in pairwise(nodes)]
        chances = torch.softmax(torch.stack([parser.score(p[: p.shape[0] // 2])[0] for p in parents]), 0)
        place = ends.index(end)
        chance = chance + torch.log(chances[place])
        entropies.append(-(chances * torch.log(chances)).sum())
        nodes[place : place + 2] = [parents[place]]
        composed[place : place + 2] = [encoder.cell(*composed[place : place + 2])]
        del ends[place]
    (root,) = composed
    return root, chance, torch.stack(entropies).mean() if entropies else chance


def test_roots_log_probabilities_entropies_and_gradients_of_merges_are_those_of_plain_lists():
    encoder, (inputs, mask), rng = encoder_of(Cooperative, parser_width=3), batch_of(), random.Random(3)
    merged = [ends_of(n, [rng.randrange(left - 1) for left in range(n, 1, -1)]) for n in LENGTHS]
    longest = max(LENGTHS) - 1
    choices = scripted(*(row + [0] * (longest - len(row)) for row in merged))
    merges = encoder.parser(inputs.detach(), mask, choices)
    assert merges.joins() == merged
    root = compose(encoder.cell, inputs, mask, merges)
    rows = [merge_slowly(encoder, x[:n], row) for x, n, row in zip(inputs, LENGTHS, merged, strict=True)]
    fast = (root, merges.log_probability, merges.entropy)
    assert_same(encoder, inputs, fast, [torch.stack(each) for each in zip(*rows, strict=True)])


def every_merge(length):
    return [ends_of(length, ranks) for ranks in product(*(range(left - 1) for left in range(length, 1, -1)))]


# Both.

#: The encoder, its module, all decisions for a length and how many there are, taking them, and what learns from them.
KINDS = {
    "rl-spinn": SimpleNamespace(
        kind=RLSPINN,
        module=rl_spinn,
        every=all_actions,
        count=lambda length: math.comb(2 * length - 2, length - 1) // length,  # Catalan numbers
        take=lambda encoder, *given: encoder.parse(*given),
        learns="encoder.tracker.weight_ih",
    ),
    "cooperative": SimpleNamespace(
        kind=Cooperative,
        module=cooperative,
        every=every_merge,
        count=lambda length: math.factorial(length - 1),
        take=lambda encoder, *given: encoder.parser(*given),
        learns="encoder.parser.score.weight",
    ),
}


@pytest.fixture(params=KINDS)
def tried(request):
    return KINDS[request.param]


@pytest.mark.parametrize("length", [2, 5])
def test_the_probabilities_of_all_trees_sum_to_1(tried, length):
    encoder, every = encoder_of(tried.kind), tried.every(length)
    assert len(every) == tried.count(length)
    inputs = torch.randn(1, length, WIDTH, dtype=torch.double).expand(len(every), -1, -1)
    mask = torch.ones(len(every), length, dtype=torch.bool)
    chances = tried.take(encoder, inputs, mask, scripted(*every)).log_probability.exp()
    assert chances.sum().item() == pytest.approx(1)
    assert bool((chances > 0).all())


@pytest.mark.parametrize(
    ("name", "settings"),
    [("rl-spinn", {"baseline": "mean"}), ("rl-spinn", {"baseline": "greedy"}), ("cooperative", {})],
)
def test_the_expected_gradient_is_that_of_the_expected_cost(monkeypatch, name, settings):
    tried = KINDS[name]
    model, every = model_with(encoder_of(tried.kind, **settings)), tried.every(4)
    with_baseline = settings != {"baseline": "mean"}
    model.encoder.relative_cost(torch.tensor([0.7, 1.1]), torch.tensor([0.2, 0.8]) if with_baseline else None)
    monkeypatch.setattr(tried.module, "_sampled", scripted(*every))
    output, labels = outcomes(model, "abca", len(every))
    assert (output.baseline is not None) == with_baseline
    assert_expected_gradients(model, output, labels, tried.learns)


def test_trees_are_sampled_with_their_probabilities(tried):
    encoder, every = encoder_of(tried.kind, 1), tried.every(3)
    with torch.no_grad():
        if tried.kind is RLSPINN:
            encoder.score.bias.fill_(1.0)
        else:
            encoder.parser.score.weight.mul_(80)
        inputs = torch.randn(1, 3, WIDTH, dtype=torch.double).expand(2000, -1, -1)
        mask = torch.ones(2000, 3, dtype=torch.bool)
        chances = tried.take(encoder, inputs[:2], mask[:2], scripted(*every)).log_probability.exp()
        torch.manual_seed(5)
        sampled = encoder.train()(inputs, mask).log_probability.exp()
    assert 0.1 < chances.min() < 0.45  # so that the test can tell them apart
    for chance in chances:
        assert torch.isclose(sampled, chance).double().mean().item() == pytest.approx(chance.item(), abs=0.04)


@pytest.mark.parametrize(("kind", "steps"), [(RLSPINN, lambda n: 2 * n - 1), (Cooperative, lambda n: n - 1)])
def test_evaluation_draws_no_random_numbers_and_learns_nothing(kind, steps):
    encoder, batch = encoder_of(kind).eval(), batch_of()
    before = torch.random.get_rng_state()
    encoding = encoder(*batch)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert encoding.log_probability is None
    assert encoding.penalty.tolist() == [0] * len(LENGTHS)
    assert encoding.steps.tolist() == list(map(steps, LENGTHS))


def test_the_bonus_of_rl_spinn_is_on_the_entropy_of_free_actions():
    encoder, (inputs, mask) = encoder_of(RLSPINN, entropy=2.0).train(), padded([1, 2, 3], WIDTH)
    with torch.no_grad():
        encoder.score.weight.zero_()
        encoder.score.bias.fill_(1.0)
    chance = F.sigmoid(torch.tensor(1.0))
    entropy = -(chance * chance.log() + (1 - chance) * (1 - chance).log()).item()
    assert encoder(inputs, mask).penalty.tolist() == pytest.approx([0, 0, -2 * entropy])


def test_the_reward_does_not_change_the_token_vectors():
    encoder, (inputs, mask) = encoder_of(Cooperative).train(), batch_of()
    encoding = encoder(inputs, mask)
    (gradient,) = torch.autograd.grad(
        encoding.log_probability.sum() + encoding.penalty.sum(), inputs, allow_unused=True
    )
    assert gradient is None


def test_the_baseline_is_the_vector_of_evaluation():
    torch.manual_seed(0)
    encoder = Cooperative(WIDTH, LSTMCell(WIDTH, dropout=0.5)).double().train()
    batch = batch_of()
    baseline = encoder(*batch).baseline
    assert encoder.cell.training
    torch.testing.assert_close(baseline, encoder.eval()(*batch).vector)


def test_costs_are_divided_by_a_large_deviation_of_earlier_batches():
    encoder = encoder_of(Cooperative)
    zero = torch.zeros(2)
    assert encoder.relative_cost(torch.tensor([8.0, -8.0]), zero).tolist() == [8, -8]
    assert encoder.relative_cost(torch.tensor([4.0, 0.0]), zero).tolist() == [0.5, 0]
    encoder.costs.square.fill_(0.25)
    encoder.costs.mean.zero_()
    assert encoder.relative_cost(torch.tensor([4.0, 0.0]), zero).tolist() == [4, 0]
