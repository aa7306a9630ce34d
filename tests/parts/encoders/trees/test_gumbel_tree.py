"""Gumbel-Tree against a slow twin, written from its equations with lists of nodes and one sequence at a time."""

from itertools import pairwise

import pytest
import torch

from crvnn_core.testing.parts import PlainCell
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.cells.recurrent import LSTMCell
from crvnn_parts.encoders.trees import gumbel_tree
from crvnn_parts.encoders.trees.gumbel_tree import GumbelTree
from slow_twins import assert_same, padded

WIDTH = 5


def setting(lengths, cell=PlainCell, seed=0, **settings):
    torch.manual_seed(seed)
    encoder = GumbelTree(WIDTH, cell(WIDTH), **settings).double()
    torch.nn.init.normal_(encoder.query, std=3.0)  # so that trees differ
    return encoder, *padded(lengths, WIDTH)


def parents_of(encoder, nodes):
    return [encoder.cell(one, two) for one, two in pairwise(nodes)]


def scores_of(encoder, parents):
    return torch.stack([encoder.cell.readout(p) @ encoder.query / WIDTH**0.5 for p in parents])


def slow_greedy(encoder, leaves):
    """Compose the best pair until one node is left, every parent composed anew; the root and the joins."""
    nodes, ends, joins = list(leaves), list(range(len(leaves))), []
    while len(nodes) > 1:
        parents = parents_of(encoder, nodes)
        best = int(scores_of(encoder, parents).argmax())
        nodes[best : best + 2] = [parents[best]]
        joins.append(ends.pop(best))
    return encoder.cell.readout(nodes[0]), joins


def slow_sampled(encoder, leaves, noise):
    """The equations of the module's docstring; ``noise`` is the Gumbel noise of each step."""
    nodes = list(leaves)
    for step in range(len(leaves) - 1):
        parents = parents_of(encoder, nodes)
        noisy = scores_of(encoder, parents) + noise[step][: len(parents)]
        soft = torch.softmax(noisy / encoder.temperature, 0)
        s = torch.nn.functional.one_hot(noisy.argmax(), len(parents)) + soft - soft.detach()
        nodes = [
            (1 - s[: i + 1].sum()) * nodes[i] + s[i] * parents[i] + s[:i].sum() * nodes[i + 1]
            for i in range(len(parents))
        ]
    return encoder.cell.readout(nodes[0])


@pytest.mark.parametrize("cell", [PlainCell, GatedCell, LSTMCell])
@pytest.mark.parametrize("lengths", [(9, 1, 4, 9, 2), (1, 1)])
def test_evaluation_composes_the_best_pair_again_and_again(cell, lengths):
    encoder, inputs, mask = setting(lengths, cell)
    encoder.eval()
    got = encoder(inputs, mask, trace=True)
    twins = [slow_greedy(encoder, encoder.cell.leaf(inputs[row, :n])) for row, n in enumerate(lengths)]
    want = torch.stack([root for root, _ in twins])
    assert_same(encoder, inputs, [got.vector], [want])
    assert got.joins == [joins for _, joins in twins]
    assert got.steps.tolist() == [n - 1 for n in lengths]


@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("cell", [PlainCell, GatedCell, LSTMCell])
def test_training_has_the_values_and_gradients_of_the_equations_under_the_same_noise(
    cell, temperature, monkeypatch
):
    lengths = (6, 2, 8, 1, 8)
    encoder, inputs, mask = setting(lengths, cell, temperature=temperature)
    order = [2, 4, 0, 1, 3]  # longest first
    generator = torch.Generator().manual_seed(3)
    noise = [torch.rand(5, 8, generator=generator, dtype=torch.double).mul(4) for _ in range(7)]
    steps = iter(noise)

    def same_noise(scores):
        return next(steps)[: scores.shape[0], : scores.shape[1]]

    monkeypatch.setattr(gumbel_tree, "gumbel_noise", same_noise)
    got = encoder.train()(inputs, mask).vector
    want = torch.stack(
        [
            slow_sampled(
                encoder, encoder.cell.leaf(inputs[row, :n]), [each[order.index(row)] for each in noise]
            )
            for row, n in enumerate(lengths)
        ]
    )
    assert_same(encoder, inputs, [got], [want], atol=1e-10)


def test_the_noise_is_that_of_a_gumbel_distribution():
    torch.manual_seed(0)
    noise = gumbel_tree.gumbel_noise(torch.empty(200_000))
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.02)
    assert noise.var().item() == pytest.approx(torch.pi**2 / 6, abs=0.03)


def test_training_samples_trees_and_evaluation_does_not():
    encoder, inputs, mask = setting((9,))
    found = {str(encoder.train()(inputs, mask, trace=True).joins) for _ in range(20)}
    assert len(found) > 1
    assert len({str(encoder.eval()(inputs, mask, trace=True).joins) for _ in range(5)}) == 1


def test_evaluation_composes_only_pairs_with_a_new_node():
    composed = []

    class Counting(PlainCell):
        def forward(self, left, right):
            composed.append(left[..., 0].numel())
            return super().forward(left, right)

    encoder, inputs, mask = setting((12,), Counting)
    encoder.eval()(inputs, mask)
    assert sum(composed) == 3 * 12 - 5
