"""Learning curves: fewer points, and smoother ones; and examples of all lengths."""

import math

from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_report.report import _spread
from crvnn_report.sections.learning import downsampled, smoothed

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(st.lists(numbers, min_size=1, max_size=400), st.integers(1, 50))
def test_downsampling_keeps_the_order_and_the_range(values, most):
    points = list(enumerate(values))
    found = downsampled(points, most)
    assert len(found) <= max(most, 0) or found == points
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)


def test_downsampling_keeps_the_mean():
    values = [float(number % 7) for number in range(1000)]
    found = downsampled(list(enumerate(values)), 100)
    assert math.isclose(sum(y for _, y in found) / 100, sum(values) / 1000)


@given(st.lists(numbers, min_size=1, max_size=100))
def test_smoothing_stays_within_the_values_and_leaves_a_constant_alone(values):
    found = smoothed(list(enumerate(values)))
    assert [x for x, _ in found] == list(range(len(values)))
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)
    assert all(math.isclose(y, 3.0) for _, y in smoothed([(x, 3.0) for x in range(len(values))]))


def test_smoothing_removes_an_oscillation():
    found = smoothed([(float(x), float(x % 2)) for x in range(100)])
    assert all(abs(y - 0.5) < 0.1 for _, y in found)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 8))
def test_examples_to_show_are_different_and_of_all_lengths(lengths, most):
    lengths.sort()
    examples = [Example((("a",) * length,), 0) for length in lengths]
    found = _spread(range(len(examples)), examples, most)
    shown = [lengths[number] for number in found]
    assert len(shown) == len(set(shown)) == min(most, len(set(lengths)))
    assert shown == sorted(shown)
