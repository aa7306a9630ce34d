"""The cooperative encoder against plain lists of nodes, and against all sequences of merges there are."""

import math
import random
from itertools import pairwise, product

import pytest
import torch

from crvnn_core.training.trainer import train
from crvnn_parts.cells.lstm import LSTMCell
from crvnn_parts.encoders.reinforced import cooperative
from crvnn_parts.encoders.reinforced.cooperative import Cooperative
from crvnn_parts.encoders.reinforced.merge_parser import compose
from enumeration import WIDTH, assert_expected_gradients, model_with, outcomes, scripted
from slow_twins import assert_same, padded
from small import variant
from training_runs import assert_same_run, stopped_after

LENGTHS = [5, 1, 7, 2, 4]


def encoder_of(seed=0, **settings):
    torch.manual_seed(seed)
    return Cooperative(WIDTH, LSTMCell(WIDTH), **settings).double()


def batch_of():
    inputs, mask = padded(LENGTHS, WIDTH)
    return inputs.detach().masked_fill(~mask.unsqueeze(-1), 0).requires_grad_(), mask


def ends_of(length, ranks):
    """The positions that merge, of the ``ranks``-th nodes with their right neighbours."""
    ends, merged = list(range(length)), []
    for rank in ranks:
        merged.append(ends.pop(rank))
    return merged


def slow(encoder, inputs, merged):
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


def test_roots_log_probabilities_entropies_and_gradients_are_those_of_plain_lists():
    encoder, (inputs, mask), rng = encoder_of(parser_width=3), batch_of(), random.Random(3)
    merged = [ends_of(n, [rng.randrange(left - 1) for left in range(n, 1, -1)]) for n in LENGTHS]
    longest = max(LENGTHS) - 1
    choices = scripted(*(row + [0] * (longest - len(row)) for row in merged))
    merges = encoder.parser(inputs.detach(), mask, choices)
    assert merges.joins() == merged
    root = compose(encoder.cell, inputs, mask, merges)
    rows = [slow(encoder, x[:n], row) for x, n, row in zip(inputs, LENGTHS, merged, strict=True)]
    fast = (root, merges.log_probability, merges.entropy)
    assert_same(encoder, inputs, fast, [torch.stack(each) for each in zip(*rows, strict=True)])


def every_merge(length):
    return [ends_of(length, ranks) for ranks in product(*(range(left - 1) for left in range(length, 1, -1)))]


@pytest.mark.parametrize("length", [2, 5])
def test_the_probabilities_of_all_merges_sum_to_1(length):
    encoder, every = encoder_of(), every_merge(length)
    assert len(every) == math.factorial(length - 1)
    inputs = torch.randn(1, length, WIDTH, dtype=torch.double).expand(len(every), -1, -1)
    mask = torch.ones(len(every), length, dtype=torch.bool)
    chances = encoder.parser(inputs, mask, scripted(*every)).log_probability.exp()
    assert chances.sum().item() == pytest.approx(1)
    assert bool((chances > 0).all())


def test_the_expected_gradient_is_that_of_the_expected_cost(monkeypatch):
    model, every = model_with(encoder_of()), every_merge(4)
    model.encoder.relative_cost(torch.tensor([0.7, 1.1]), torch.tensor([0.2, 0.8]))
    monkeypatch.setattr(cooperative, "_sampled", scripted(*every))
    output, labels = outcomes(model, "abca", len(every))
    assert_expected_gradients(model, output, labels, "encoder.parser.score.weight")


def test_merges_are_sampled_with_their_probabilities():
    encoder, every = encoder_of(1), every_merge(3)
    with torch.no_grad():
        encoder.parser.score.weight.mul_(80)
        inputs = torch.randn(1, 3, WIDTH, dtype=torch.double).expand(2000, -1, -1)
        mask = torch.ones(2000, 3, dtype=torch.bool)
        chances = encoder.parser(inputs[:2], mask[:2], scripted(*every)).log_probability.exp()
        torch.manual_seed(5)
        sampled = encoder.train()(inputs, mask).log_probability.exp()
    assert 0.1 < chances.min() < 0.45  # so that the test can tell them apart
    for chance in chances:
        assert torch.isclose(sampled, chance).double().mean().item() == pytest.approx(chance.item(), abs=0.04)


def test_the_reward_does_not_change_the_token_vectors():
    encoder, (inputs, mask) = encoder_of().train(), batch_of()
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
    encoder = encoder_of()
    zero = torch.zeros(2)
    assert encoder.relative_cost(torch.tensor([8.0, -8.0]), zero).tolist() == [8, -8]
    assert encoder.relative_cost(torch.tensor([4.0, 0.0]), zero).tolist() == [0.5, 0]
    encoder.costs.square.fill_(0.25)
    encoder.costs.mean.zero_()
    assert encoder.relative_cost(torch.tensor([4.0, 0.0]), zero).tolist() == [4, 0]


@pytest.mark.parametrize("encoder", ["cooperative", "rl-spinn"])
def test_a_run_killed_and_resumed_ends_with_the_same_bits(encoder, tmp_path):
    sets = (f"model.encoder={encoder}", "task=pairs", "training.save_every=3", "training.steps=8")
    train(variant(*sets), tmp_path / "whole")
    stopped_after(5, tmp_path / "run", *sets)
    train(variant(*sets), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("encoder", ["cooperative", "rl-spinn"])
def test_training_in_mixed_precision_gives_finite_weights(encoder, tmp_path):
    assembly = variant(f"model.encoder={encoder}", "training.precision=bf16-mixed", "training.steps=3")
    before = {name: p.detach().clone() for name, p in assembly.model.encoder.named_parameters()}
    train(assembly, tmp_path / "run")
    for name, parameter in assembly.model.encoder.named_parameters():
        assert bool(parameter.isfinite().all())
        assert not torch.equal(parameter, before[name]), f"{name} was not trained"
