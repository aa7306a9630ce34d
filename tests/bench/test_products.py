"""The matrix products of a training step, recorded and repeated alone."""

import torch

from crvnn_bench.contenders import Contenders
from crvnn_bench.products import products_alone, products_of
from crvnn_bench.setup import Setup
from crvnn_bench.workloads import random_batch


def test_the_floor_has_the_products_of_cell_and_scorer_at_every_step(catalog):
    width, depth, tokens = 8, 3, 21
    model = Contenders(Setup(width=width, max_steps=depth), catalog).build("crvnn-plain").train()
    found = products_of(model, random_batch(tokens, model, 0))
    positions = tokens + 2  # START and END
    cell = 2 * width * 4 * width + 4 * width * 4 * width
    convolution, score = 5 * width * width, width
    once = tokens * width * width + positions * width * width + width * 10  # embedding, leaves, head
    total = sum(m * k * n for m, k, n in found)
    assert total >= depth * positions * (cell + convolution) + once
    assert total <= depth * positions * (cell + convolution + score) + once
    assert {m for m, _, _ in found} == {1, tokens, positions}


def test_the_floor_does_one_product_forward_and_two_backward(monkeypatch):
    shapes = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda a, b: shapes.append((*a.shape, b.shape[1])) or mm(a, b))
    products_alone([(5, 3, 2), (7, 3, 2)], "cpu")()
    assert shapes == [(5, 3, 2), (7, 3, 2), (7, 2, 3), (2, 7, 3), (5, 2, 3), (2, 5, 3)]
