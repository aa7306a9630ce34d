"""Products of kernels with factors in bfloat16, against torch with the same rounding of factors."""

import pytest
import torch
from torch.nn.functional import linear

import crvnn_parts.operations.gated as operations
from crvnn_core.kernels import without
from crvnn_core.training.devices import rounded_products
from crvnn_parts.cells.gated import GatedCell
from twins import needs_kernels, numbers, outcome, unclean_memory

needs_amx = pytest.mark.skipif(
    not all(torch.cpu.get_capabilities().get(name) for name in ("amx_bf16", "avx512_bf16")),
    reason="this processor has no AMX",
)


def rounded(values):
    return values.bfloat16().float()


class RoundedLinear(torch.autograd.Function):
    """A linear layer without bias whose products, forward and backward, have rounded factors and exact sums."""

    @staticmethod
    def forward(context, inputs, weight):
        context.save_for_backward(inputs, weight)
        return (rounded(inputs).double() @ rounded(weight).double().T).float()

    @staticmethod
    def backward(context, gradient):
        inputs, weight = context.saved_tensors
        rows, columns = rounded(gradient.flatten(0, -2)).double(), rounded(inputs.flatten(0, -2)).double()
        return (rounded(gradient).double() @ rounded(weight).double()).float(), (rows.T @ columns).float()


def rounded_linear(inputs, weight, bias):
    return RoundedLinear.apply(inputs, weight) + bias


def distances(found, expected):
    values = [*found[0], *found[1]], [*expected[0], *expected[1]]
    return [((a - b).norm() / b.norm()).item() for a, b in zip(*values, strict=True)]


@needs_kernels
@needs_amx
@pytest.mark.parametrize("rows", [1, 15, 16, 17, 31, 32, 33, 100, 257, 1100])
@pytest.mark.parametrize(("width", "hidden"), [(3, 1), (5, 7), (7, 33), (16, 64), (33, 12), (130, 520)])
def test_parents_and_gradients_have_factors_in_bfloat16_and_sums_in_float32(monkeypatch, rows, width, hidden):
    """An element that is rounded up here and down there differs by 1/128 of itself; few do."""
    cell = GatedCell(width, hidden)
    children = [numbers((rows, width), seed) for seed in (1, 2)]
    unclean_memory()
    with rounded_products("bf16-products"):
        found = outcome(cell, children, cell)
    exact = outcome(cell, children, cell)
    assert max(distances(found, exact)) > 1e-4, "products were not rounded"
    with without(), monkeypatch.context() as patched:
        patched.setattr(operations, "linear", rounded_linear)
        expected = outcome(cell, children, cell)
    assert max(distances(found, expected)) < 2e-3


@needs_kernels
@needs_amx
def test_rows_and_threads_leave_the_bits_of_rounded_products_alone():
    cell, (left, right) = GatedCell(24), [numbers((700, 24), seed) for seed in (1, 2)]
    threads = torch.get_num_threads()
    with rounded_products("bf16-products"), torch.no_grad():
        whole = cell(left, right)
        torch.set_num_threads(2)
        try:
            assert torch.equal(cell(left, right), whole)
        finally:
            torch.set_num_threads(threads)
        assert torch.equal(cell(left[17:50], right[17:50]), whole[17:50])


@needs_kernels
def test_products_are_as_before_outside_training():
    cell, children = GatedCell(8), [numbers((9, 8), seed) for seed in (1, 2)]
    with torch.no_grad():
        before = cell(*children)
        with rounded_products("32"):
            assert torch.equal(cell(*children), before)
        with rounded_products("bf16-products"):
            cell(*children)
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.equal(cell(*children), before)


def test_linear_here_is_that_of_torch():
    """What the twin replaces is what the definition calls."""
    assert operations.linear is linear
