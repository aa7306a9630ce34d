"""Figures from a few seeds: the tests against slow twins and tables."""

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.runs.significance import holm, permutation_test, t_below, t_quantile, welch_interval

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
    p, least = permutation_test(one, two)
    assert p == pytest.approx(by_brute_force(one, two))
    assert least <= p <= 1


@given(few, few)
def test_the_sides_can_be_exchanged(one, two):
    assert permutation_test(one, two) == pytest.approx(permutation_test(two, one))


def test_values_that_do_not_overlap_give_the_least_p_that_there_is():
    p, least = permutation_test([0.1, 0.2, 0.3, 0.15, 0.25], [0.8, 0.9, 0.95, 0.85, 0.7])
    assert p == least == 2 / math.comb(10, 5)
    p, least = permutation_test([0.1, 0.2], [0.8, 0.9, 0.95])
    assert p == least == 1 / math.comb(5, 2)


def test_many_seeds_are_sampled_and_give_the_same_p_every_time():
    generator = random.Random(1)
    one = [generator.gauss(0.0, 1) for _ in range(12)]
    two = [generator.gauss(1.0, 1) for _ in range(12)]
    p, least = permutation_test(one, two)
    assert (p, least) == permutation_test(one, two)
    assert 0 < least <= p < 0.2
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
    ("freedom", "value"),
    [(1, 12.7062047), (2, 4.3026527), (4, 2.7764451), (7.5, 2.3323), (30, 2.0422725), (1000, 1.9623391)],
)
def test_quantiles_of_t_are_those_of_the_tables(freedom, value):
    assert t_quantile(0.975, freedom) == pytest.approx(value, abs=1e-3 if freedom == 7.5 else 1e-6)


@given(st.floats(0.0, 30.0))
def test_t_with_two_degrees_of_freedom_has_a_formula(value):
    assert t_below(value, 2) == pytest.approx(0.5 + value / (2 * math.sqrt(2 + value * value)), abs=1e-8)


def test_welch_of_sides_that_vary_alike_is_student():
    one, two = [1.0, 2.0, 3.0], [2.0, 4.0, 3.0]
    low, high = welch_interval(one, two)
    reach = t_quantile(0.975, 4) * math.sqrt(statistics.variance(one) / 3 + statistics.variance(two) / 3)
    assert (low, high) == pytest.approx((1 - reach, 1 + reach))
