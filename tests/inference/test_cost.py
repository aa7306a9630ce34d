"""Costs: multiply-adds by slot, counted while the encoder runs."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from crvnn_core.inference.cost import count_multiply_adds
from crvnn_core.spec import read_spec
from crvnn_core.spec.assembly import assemble
from crvnn_parts.retrievers.dense import AdhocDense
from crvnn_parts.retrievers.interval import Adhoc

SLOTS = ("retriever", "scorer", "decision", "cell", "halting")


def cost_of(catalog, n, *, width=16, sets=(), **parts):
    """The cost of a forward pass over two sequences of n tokens that takes three steps."""
    sets = [
        *sets,
        f"model.width={width}",
        "model.scorer.transition=0",
        "model.halting=never",
        "model.encoder.max_steps=3",
        "model.encoder.shortcuts=false",
    ]
    encoder = assemble(read_spec(catalog, parts=parts, sets=sets), catalog).model.encoder
    with count_multiply_adds(encoder, SLOTS) as cost, torch.no_grad():
        encoder(torch.randn(2, n, width), torch.ones(2, n, dtype=torch.bool))
    return cost


@pytest.mark.parametrize("width", [8, 32])
def test_the_cell_costs_its_products_and_gates_and_the_scorer_its_convolution_and_score(catalog, width):
    cost = cost_of(catalog, 10, width=width)
    assert (
        cost.positions["cell"] == 2 * (10 + 2) * 3
    )  # START and END are positions too, in each of three steps
    products = 2 * width * 4 * width + 4 * width * 4 * width
    assert cost.per_position("cell") == products + 3 * width
    assert cost.per_position("scorer") == 5 * width * width + width


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize(
    ("linear", "sets"),
    [("adhoc", ["model.retriever.small=0"]), ("log-space", []), ("windowed", [])],
    ids=["adhoc", "log-space", "windowed"],
)
def test_linear_retrievers_cost_the_same_per_position_however_long_the_sequence(catalog, linear, sets):
    short, long = (
        cost_of(catalog, n, sets=sets, retriever=linear).per_position("retriever") for n in (40, 160)
    )
    assert long < 1.1 * short


@pytest.mark.parametrize("dense", ["adhoc-dense", "log-space-dense"])
def test_dense_retrievers_cost_grows_with_the_sequence(catalog, dense):
    short, long = (cost_of(catalog, n, retriever=dense).per_position("retriever") for n in (40, 160))
    assert long > 3 * short


@pytest.mark.parametrize("by", ["kernels"], indirect=True)
@pytest.mark.parametrize("n", [10, 100, 600])
def test_compiled_intervals_cost_less_than_matrices_at_every_length(catalog, n, by):
    linear, dense = (
        cost_of(catalog, n, retriever=name).per_position("retriever") for name in ("adhoc", "adhoc-dense")
    )
    assert linear == cost_of(catalog, 30, retriever="adhoc").per_position("retriever")
    assert dense > 4 * (n + 2) * 16 > linear  # four products with vectors: a window of five


@pytest.mark.parametrize("by", ["torch"], indirect=True)
def test_without_kernels_short_sequences_cost_matrices_and_long_ones_do_not(catalog, by):
    for n, same in ((40, True), (600, False)):
        linear, dense = (
            cost_of(catalog, n, retriever=name).by_slot["retriever"] for name in ("adhoc", "adhoc-dense")
        )
        assert (linear == dense) is same


@pytest.mark.parametrize("operator", ["left", "right"])
def test_the_products_of_matrices_are_those_of_torchs_counter(operator):
    existence, values = torch.rand(2, 30), torch.randn(2, 30, 8)
    near = AdhocDense()(existence, torch.ones_like(existence, dtype=torch.bool))
    with FlopCounterMode(display=False) as counter:
        getattr(near, operator)(values)
    assert near.multiply_adds(values) is None  # torch's operations are counted
    with count_multiply_adds(nn.Module(), SLOTS) as cost:
        getattr(near, operator)(values)
    assert cost.by_slot["rest"] == counter.get_total_flops() // 2 == 2 * 30 * 30 * 8


@pytest.mark.parametrize("by", ["kernels"], indirect=True)
@pytest.mark.parametrize("scale", [1.0, 0.3, 0.05])
def test_compiled_intervals_cost_no_more_than_they_say(by, scale):
    existence, values = torch.rand(2, 50) * scale, torch.randn(2, 50, 3)
    near = Adhoc()(existence, torch.ones_like(existence, dtype=torch.bool))
    bounds = near.operands[1]
    for side, before in ((0, True), (1, False)):
        summed = sum(3 * rows_summed(row[side].tolist(), before) for row in bounds)
        at_ends = 3 * 2 * 50  # a position in which the interval ends, for each
        assert near.multiply_adds(values) / 4 < summed + at_ends <= near.multiply_adds(values)


def rows_summed(bound, before):
    """How many rows the sliding window of run_sums.h adds up, counted step by step."""
    count = base = middle = last = 0
    for i, limit in enumerate(bound):
        begin, end = (limit, i) if before else (i + 1, limit)
        if end - begin < 2:
            count += max(end - begin, 0)
            continue
        if begin >= last:
            base = middle = last = begin
        count += max(end - last, 0)
        last = max(last, end)
        if begin > middle:
            base, middle = begin, last
            count += middle - base
    return count


def test_operations_that_work_in_place_are_counted():
    class InPlace(nn.Module):
        def forward(self, values):
            return values.clone().mul_(2).addmm_(values, torch.ones(3, 3))

    with count_multiply_adds(InPlace(), SLOTS) as cost:
        InPlace()(torch.ones(5, 3))
    assert cost.by_slot["rest"] == 5 * 3 + 5 * 3 * 3


def test_what_a_scorer_asks_of_its_neighbours_is_the_retrievers_cost(catalog):
    dense = cost_of(catalog, 80, retriever="adhoc-dense")
    linear = cost_of(catalog, 80, retriever="log-space")
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


def test_counting_changes_nothing_and_leaves_no_hooks_even_if_the_encoder_raises(catalog):
    encoder = assemble(read_spec(catalog, sets=["model.width=8"]), catalog).model.encoder
    inputs, mask = torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)
    plain = encoder(inputs, mask).vector
    with count_multiply_adds(encoder, SLOTS):
        while_counted = encoder(inputs, mask).vector
    torch.testing.assert_close(plain, while_counted)  # kernels cannot be counted, so torch did the work
    with pytest.raises(Exception, match="inputs"), count_multiply_adds(encoder, SLOTS):
        encoder(inputs[0], mask)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder.modules())
