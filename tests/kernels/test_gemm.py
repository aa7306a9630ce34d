"""Matrix products of the kernels at sizes that fill no whole tile: 14 rows, 32 columns, 256 rows of a tall matrix."""

import copy

import pytest
import torch

from crvnn_core.kernels import fixed_weights
from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.retrievers.interval import Adhoc
from crvnn_parts.scorers import WindowScorer
from twins import assert_twins, needs_kernels, numbers


@needs_kernels
@pytest.mark.parametrize("rows", [1, 13, 14, 15, 19, 113, 257, 1100])
@pytest.mark.parametrize(("width", "hidden"), [(1, 1), (7, 33), (8, 31), (16, 64), (33, 12)])
def test_a_cell_of_any_size_agrees_with_torch(rows, width, hidden):
    torch.manual_seed(0)
    cell = GatedCell(width, hidden)
    twin = copy.deepcopy(cell).double()
    inputs = [numbers((rows, width), 0), numbers((rows, width), 1)]
    assert_twins(cell, twin, inputs, (cell, twin), plain=cell)


@needs_kernels
@pytest.mark.parametrize("rows", [1, 14, 31, 300])
@pytest.mark.parametrize("width", [1, 13, 32, 40])
def test_a_scorer_of_any_size_agrees_with_torch(rows, width):
    torch.manual_seed(0)
    scorer = WindowScorer(width, 5, 3)
    twin = copy.deepcopy(scorer).double()
    exists = numbers((2, rows), 2, torch.rand)

    def run(module):
        def scores(values, left_c):
            near = Adhoc()(exists.to(values.dtype), torch.ones(2, rows, dtype=torch.bool))
            return module(values, near, left_c)

        return scores

    inputs = [numbers((2, rows, width), 0), numbers((2, rows), 1)]
    assert_twins(run(scorer), run(twin), inputs, (scorer, twin), plain=run(scorer))


@needs_kernels
def test_weights_that_change_between_forward_passes_are_packed_again():
    cell, inputs = GatedCell(8), numbers((20, 8), 0)
    for _ in range(2):
        with fixed_weights():
            found = cell(inputs, inputs)
            torch.testing.assert_close(found, cell.layer_by_layer(inputs, inputs))
        with torch.no_grad():
            cell.expand.weight.mul_(2)
