"""Significance with a few seeds, against brute force, tables and scipy.stats."""

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.runs.comparison import holm, permutation_test, welch_interval

few = st.lists(st.integers(0, 20).map(lambda number: number / 20), min_size=2, max_size=4)


def by_brute_force(one, two):
    """Every order of the values, the first of which go to one side."""
    values = [round(20 * value) for value in (*one, *two)]  # whole numbers: no rounding to think of

    def apart(order):
        first, rest = order[: len(one)], order[len(one) :]
        return abs(sum(first) * len(rest) - sum(rest) * len(first))

    orders = list(itertools.permutations(values))
    return sum(apart(order) >= apart(values) for order in orders) / len(orders)


@given(few, st.lists(st.integers(0, 20).map(lambda number: number / 20), min_size=2, max_size=3))
def test_the_permutation_test_agrees_with_trying_every_order(one, two):
    p, p_min = permutation_test(one, two)
    assert p == pytest.approx(by_brute_force(one, two))
    assert p_min <= p <= 1


@given(few, few)
def test_the_sides_can_be_exchanged(one, two):
    assert permutation_test(one, two) == pytest.approx(permutation_test(two, one))


def test_values_that_do_not_overlap_give_the_smallest_possible_p():
    p, p_min = permutation_test([0.1, 0.2, 0.3, 0.15, 0.25], [0.8, 0.9, 0.95, 0.85, 0.7])
    assert p == p_min == 2 / math.comb(10, 5)
    p, p_min = permutation_test([0.1, 0.2], [0.8, 0.9, 0.95])
    assert p == p_min == 1 / math.comb(5, 2)


def test_many_seeds_are_sampled_and_give_the_same_p_every_time():
    generator = random.Random(1)
    one = [generator.gauss(0.0, 1) for _ in range(12)]
    two = [generator.gauss(1.0, 1) for _ in range(12)]
    p, p_min = permutation_test(one, two)
    assert (p, p_min) == permutation_test(one, two)
    assert 0 < p_min <= p < 0.2
    far, _ = permutation_test(one, [value + 50 for value in one])
    assert far == pytest.approx(1 / 20_001)


def test_equal_values_are_no_difference():
    assert permutation_test([0.5, 0.5], [0.5, 0.5])[0] == 1
    assert welch_interval([0.5, 0.5], [0.5, 0.5]) is None


def test_holm_multiplies_the_smallest_most_and_never_goes_back():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("size", "quantile"),
    [
        (2, 4.3026527),
        (3, 2.7764451),
        (16, 2.0422725),
        (501, 1.9623391),
    ],  # of t with 2 * size - 2 degrees of freedom
)
def test_welch_of_samples_of_equal_variance_is_students_interval(size, quantile):
    one = [float(number) for number in range(size)]
    two = [number + 1 for number in one]
    low, high = welch_interval(one, two)
    margin = quantile * math.sqrt(2 * statistics.variance(one) / size)
    assert (low, high) == pytest.approx((1 - margin, 1 + margin), rel=1e-6)


def test_welch_of_samples_of_unequal_variance_is_that_of_scipy_stats():
    stats = pytest.importorskip("scipy.stats")
    one, two = [0.91, 0.93, 0.92], [0.6, 0.95, 0.7, 0.81, 0.9]
    wanted = stats.ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
    assert welch_interval(one, two) == pytest.approx((wanted.low, wanted.high))
