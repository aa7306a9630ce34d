"""Haltings: who goes on."""

import torch

from crvnn_parts.haltings import Threshold

EXISTS = torch.tensor([[1.0, 0.5, 1.0], [0.0, 0.005, 1.0], [0.009, 0.02, 1.0], [0.0, 0.0, 1.0]])

VECTORS = torch.randn(4, 3, 2)


def test_threshold_stops_when_one_token_is_left():
    assert Threshold(0.01)(EXISTS, VECTORS, 1).tolist() == [True, False, True, False]
    assert Threshold(0.1)(EXISTS, VECTORS, 1).tolist() == [True, False, False, False]
