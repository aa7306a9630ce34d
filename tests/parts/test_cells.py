"""Cells against their equations."""

import pytest
import torch
from torch import nn

from crvnn_parts.cells.gated import GatedCell
from crvnn_parts.cells.recurrent import GRUCell, LSTMCell, RNNCell

LEFT, RIGHT = torch.randn(2, 3, 4), torch.randn(2, 3, 4)


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize(
    ("activation", "function"),
    [("gelu", nn.functional.gelu), ("gelu-tanh", nn.GELU("tanh")), ("relu", torch.relu)],
)
def test_the_gated_cell_is_the_papers(activation, function):
    cell = GatedCell(4, hidden=10, activation=activation)
    contents = cell.gates(function(cell.expand(torch.cat([LEFT, RIGHT], -1))))
    z, h, c, u = contents.chunk(4, -1)
    expected = cell.norm(z.sigmoid() * LEFT + h.sigmoid() * RIGHT + c.sigmoid() * u)
    torch.testing.assert_close(cell(LEFT, RIGHT), expected)


def test_the_gated_cell_has_four_times_its_width_inside():
    assert GatedCell(8).expand.out_features == 32


def test_leaves_and_parents_may_share_one_norm():
    shared, apart = GatedCell(4, shared_norm=True), GatedCell(4)
    assert shared.leaf_norm is shared.norm
    assert apart.leaf_norm is not apart.norm


@pytest.mark.usefixtures("by")
def test_dropout_is_behind_the_first_map_and_in_training_only():
    cell = GatedCell(4, dropout=0.5)
    torch.testing.assert_close(cell.eval()(LEFT, RIGHT), cell(LEFT, RIGHT))
    assert (cell.train()(LEFT, RIGHT) - cell(LEFT, RIGHT)).abs().max() > 0


@pytest.mark.usefixtures("by")
def test_the_mode_of_the_dropout_layer_counts_as_in_monte_carlo_dropout():
    cell = GatedCell(4, dropout=0.5).eval()
    expected = cell(LEFT, RIGHT)
    cell.dropout.train()
    assert (cell(LEFT, RIGHT) - expected).abs().max() > 0
    cell.train().dropout.eval()
    torch.testing.assert_close(cell(LEFT, RIGHT), expected)


@pytest.mark.usefixtures("by")
def test_another_layer_in_place_of_dropout_is_called_on_the_hidden_units():
    cell = GatedCell(4)
    cell.dropout = nn.Threshold(torch.inf, 0.0)
    gates, new = cell.gates.bias.split([12, 4])
    z, h, c = gates.sigmoid().chunk(3)
    torch.testing.assert_close(cell(LEFT, RIGHT), cell.norm(z * LEFT + h * RIGHT + c * new))


def test_the_leaves_of_an_lstm_cell_may_be_tanh_of_affine_maps():
    cell = LSTMCell(4, leaf="tanh")
    torch.testing.assert_close(cell.leaf(LEFT), torch.tanh(cell.leaf_map(LEFT)))


def test_an_lstm_cell_may_begin_with_orthogonal_weights_and_open_forget_gates():
    cell = LSTMCell(4, forget_bias=1.0, orthogonal=True)
    torch.testing.assert_close(cell.gates.weight.T @ cell.gates.weight, torch.eye(8), atol=1e-5, rtol=0)
    assert cell.gates.bias.tolist() == [1.0] * 8 + [0.0] * 12
    assert not LSTMCell(4).gates.bias.any()


def test_the_lstm_cell_is_a_binary_tree_lstm():
    cell = LSTMCell(4)
    left, right = torch.randn(3, 8), torch.randn(3, 8)
    f1, f2, i, o, u = cell.gates(torch.cat([left[:, :4], right[:, :4]], -1)).chunk(5, -1)
    memory = f1.sigmoid() * left[:, 4:] + f2.sigmoid() * right[:, 4:] + i.sigmoid() * u.tanh()
    torch.testing.assert_close(cell(left, right), torch.cat([o.sigmoid() * memory.tanh(), memory], -1))
    o, m = cell.leaf_map(LEFT).chunk(2, -1)
    torch.testing.assert_close(cell.leaf(LEFT), torch.cat([o.sigmoid() * m.tanh().tanh(), m.tanh()], -1))
    torch.testing.assert_close(cell.readout(left), left[:, :4])


def test_the_rnn_cell_is_one_map_and_tanh():
    cell = RNNCell(4)
    torch.testing.assert_close(cell(LEFT, RIGHT), cell.compose(torch.cat([LEFT, RIGHT], -1)).tanh())


def test_the_gru_cell_stays_between_its_children_and_the_new():
    cell = GRUCell(4)
    parent = cell(LEFT, RIGHT)
    low, high = torch.minimum(LEFT, RIGHT).clamp(max=-1), torch.maximum(LEFT, RIGHT).clamp(min=1)
    assert ((parent >= low) & (parent <= high)).all()
