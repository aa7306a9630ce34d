"""Costs: multiply-adds by slot, counted while the encoder runs."""

import pytest
import torch
from torch import nn

from crvnn_core import assemble, read_spec
from crvnn_core.inference.cost import count_multiply_adds

SLOTS = ("retriever", "scorer", "decision", "cell", "halting")


def cost_of(catalog, n, *, width=16, **parts):
    """The cost of a forward pass over two sequences of n tokens that takes three steps."""
    sets = [
        f"model.width={width}",
        "model.scorer.transition=0",
        "model.halting=never",
        "model.encoder.max_steps=3",
        "model.encoder.shortcuts=false",
    ]
    if parts.get("retriever") == "adhoc":
        sets.append("model.retriever.small=0")  # no matrices, however short the sequence
    encoder = assemble(read_spec(catalog, parts=parts, sets=sets), catalog).model.encoder
    with count_multiply_adds(encoder, SLOTS) as cost, torch.no_grad():
        encoder(torch.randn(2, n, width), torch.ones(2, n, dtype=torch.bool))
    return cost


@pytest.mark.parametrize("width", [8, 32])
def test_the_gated_cell_costs_its_two_matrix_products_and_its_three_gates(catalog, width):
    got = cost_of(catalog, 10, width=width).per_position("cell")
    products = 2 * width * 4 * width + 4 * width * 4 * width
    assert got == products + 3 * width


def test_positions_are_counted_over_sequences_and_steps(catalog):
    assert cost_of(catalog, 10).positions["cell"] == 2 * (10 + 2) * 3  # START and END are positions too


def test_the_window_scorer_costs_its_convolution_and_its_score(catalog):
    width = 16
    assert cost_of(catalog, 10, width=width).per_position("scorer") == 5 * width * width + width


@pytest.mark.parametrize("linear", ["adhoc", "log-space", "windowed"])
def test_linear_retrievers_cost_the_same_per_position_however_long_the_sequence(catalog, linear):
    short, long = (cost_of(catalog, n, retriever=linear).per_position("retriever") for n in (40, 160))
    assert long < 1.1 * short


@pytest.mark.parametrize("dense", ["adhoc-dense", "log-space-dense"])
def test_dense_retrievers_cost_grows_with_the_sequence(catalog, dense):
    short, long = (cost_of(catalog, n, retriever=dense).per_position("retriever") for n in (40, 160))
    assert long > 3 * short


def test_what_a_scorer_asks_of_its_neighbours_is_the_retrievers_cost(catalog):
    dense = cost_of(catalog, 80, retriever="adhoc-dense")
    linear = cost_of(catalog, 80, retriever="adhoc")
    assert dense.by_slot["scorer"] == linear.by_slot["scorer"]
    assert dense.by_slot["retriever"] > linear.by_slot["retriever"]


def test_a_slot_that_never_ran_costs_nothing_to_speak_of(catalog):
    encoder = assemble(
        read_spec(catalog, parts={"encoder": "balanced"}, sets=["model.width=8"]), catalog
    ).model.encoder
    with count_multiply_adds(encoder, SLOTS) as cost:
        encoder(torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool))
    assert cost.per_position("retriever") is None
    assert cost.positions["cell"] == 2 * 5  # a tree of six leaves has five inner nodes


def test_counting_changes_nothing_and_leaves_no_trace(catalog):
    encoder = assemble(read_spec(catalog, sets=["model.width=8"]), catalog).model.encoder
    inputs, mask = torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)
    plain = encoder(inputs, mask).vector
    with count_multiply_adds(encoder, SLOTS):
        while_counted = encoder(inputs, mask).vector
    torch.testing.assert_close(plain, while_counted)  # kernels cannot be counted, so torch did the work
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder.modules())


def test_the_hooks_are_removed_when_the_encoder_raises(catalog):
    encoder = assemble(read_spec(catalog, sets=["model.width=8"]), catalog).model.encoder
    with pytest.raises(Exception, match="inputs"), count_multiply_adds(encoder, SLOTS):
        encoder(torch.randn(2, 8), torch.ones(2, 8, dtype=torch.bool))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder.modules())


def test_a_part_may_be_called_with_keywords():
    class Doubling(nn.Module):
        def forward(self, left, right):
            return left * right

    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = Doubling()

        def forward(self, inputs):
            return self.cell(left=inputs, right=inputs)

    encoder = Keywords()
    with count_multiply_adds(encoder, SLOTS) as cost:
        encoder(torch.ones(5, 3))
    assert cost.per_position("cell") == 3
