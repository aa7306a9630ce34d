"""Running statistics of costs."""

import pytest
import torch

from crvnn_parts.encoders.reinforced.running_cost import SHARE, RunningCost


def test_the_first_batches_count_alike_and_later_ones_by_their_share():
    costs, batches = RunningCost(), torch.randn(300, 8)
    for batch in batches:
        costs.add(batch)
    early, late = batches[: round(1 / SHARE)], batches[round(1 / SHARE) :]
    mean, square = early.mean(), early.square().mean()
    for batch in late:
        mean = (1 - SHARE) * mean + SHARE * batch.mean()
        square = (1 - SHARE) * square + SHARE * batch.square().mean()
    torch.testing.assert_close(costs.mean, mean)
    torch.testing.assert_close(costs.deviation(), (square - mean**2).sqrt())


def test_without_baseline_the_mean_of_earlier_costs_is_subtracted():
    costs = RunningCost()
    assert costs.relative(torch.tensor([1.0, 3.0]), None).tolist() == [-1, 1]  # there is no earlier one
    assert costs.relative(torch.tensor([7.0, 2.0]), None).tolist() == [5, 0]
    assert costs.mean.item() == pytest.approx(3.25)


def test_baselines_are_subtracted_and_their_gaps_counted():
    costs = RunningCost()
    assert costs.relative(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 0.0])).tolist() == [-1, 3]
    assert costs.mean.item() == 1
    assert costs.deviation().item() == 2


def test_there_is_no_deviation_before_the_first_batch():
    assert RunningCost().deviation().item() == 0


def test_equal_costs_have_no_deviation_despite_rounding():
    costs = RunningCost()
    for _ in range(50):
        costs.add(torch.full((3,), 0.1))
    assert costs.deviation().item() == pytest.approx(0, abs=1e-3)


def test_all_statistics_are_saved_with_the_weights():
    assert set(RunningCost().state_dict()) == {"mean", "square", "batches"}
