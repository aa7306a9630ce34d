"""Haltings: who goes on."""

import torch

from crvnn_parts.haltings import FixedDepth, Never, Threshold

EXISTS = torch.tensor([[1.0, 0.5, 1.0], [0.0, 0.005, 1.0], [0.009, 0.02, 1.0], [0.0, 0.0, 1.0]])

VECTORS = torch.randn(4, 3, 2)


def test_threshold_stops_when_one_token_is_left():
    assert Threshold(0.01)(EXISTS, VECTORS, 1).tolist() == [True, False, True, False]
    assert Threshold(0.1)(EXISTS, VECTORS, 1).tolist() == [True, False, False, False]


def test_never_never_stops():
    assert Never()(EXISTS, VECTORS, 10**6).all()


def test_fixed_depth_has_its_depth_as_a_limit():
    assert FixedDepth(5).limit == 5
