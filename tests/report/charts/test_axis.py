"""Axes: ranges and ticks."""

from hypothesis import given
from hypothesis import strategies as st

from crvnn_report.charts.axis import Axis, tick_label

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-9, 1e9)


@given(st.lists(numbers, min_size=1, max_size=20), st.booleans())
def test_an_axis_has_room_for_every_value_and_a_few_ticks(values, zero):
    axis = Axis.fit("x", values, zero=zero)
    assert all(-1e-9 <= axis.fraction(value) <= 1 + 1e-9 for value in values)
    ticks = axis.ticks()
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 8
    assert all(axis.low - 1e-6 <= tick <= axis.high + 1e-6 for tick in ticks)


@given(st.lists(positive, min_size=1, max_size=20))
def test_a_logarithmic_axis_has_too(values):
    axis = Axis.fit("x", values, log=True)
    assert all(0 <= axis.fraction(value) <= 1 for value in values)
    assert 1 <= len(axis.ticks()) <= 8
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks())


def test_ticks_are_round_numbers():
    assert Axis("x", 0, 100).ticks(5) == [0, 20, 40, 60, 80, 100]
    assert Axis("x", 0.0, 0.0031).ticks(6) == [0.0, 0.001, 0.002, 0.003]
    assert Axis("x", 0.9, 1200, log=True).ticks() == [1, 3, 10, 30, 100, 300, 1000]
    assert [tick_label(value) for value in (0, 0.25, 1500, 20_000, 3e-5, 2e7)] == [
        "0",
        "0.25",
        "1,500",
        "20k",
        "3e-5",
        "2e7",
    ]
