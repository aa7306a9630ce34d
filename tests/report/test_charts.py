"""Axes, curves, matrices: what pictures of a report are made of."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from crvnn_core import Example
from crvnn_core.runs.records import Variant
from crvnn_report.curves import smoothed, thinned
from crvnn_report.examination import Look, Seen, _spread, confusion
from crvnn_report.figures import _ranges, depth_by_length
from crvnn_report.matrices import Matrix
from crvnn_report.svg import Axis, Plot, plain, short

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
positive = st.floats(1e-9, 1e9)


@given(st.lists(numbers, min_size=1, max_size=20), st.booleans())
def test_an_axis_has_room_for_every_value_and_a_few_ticks(values, zero):
    axis = Axis.around("x", values, zero=zero)
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)
    ticks = axis.ticks()
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 8
    assert all(axis.low - 1e-6 <= tick <= axis.high + 1e-6 for tick in ticks)


@given(st.lists(positive, min_size=1, max_size=20))
def test_a_logarithmic_axis_has_too(values):
    axis = Axis.around("x", values, logarithmic=True)
    assert all(0 <= axis.share(value) <= 1 for value in values)
    assert 1 <= len(axis.ticks()) <= 8
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks())


def test_ticks_are_round_numbers():
    assert Axis("x", 0, 100).ticks(5) == [0, 20, 40, 60, 80, 100]
    assert Axis("x", 0.0, 0.0031).ticks(6) == [0.0, 0.001, 0.002, 0.003]
    assert Axis("x", 0.9, 1200, logarithmic=True).ticks() == [1, 3, 10, 30, 100, 300, 1000]
    assert [short(value) for value in (0, 0.25, 1500, 20_000, 3e-5, 2e7)] == [
        "0",
        "0.25",
        "1,500",
        "20k",
        "3e-5",
        "2e7",
    ]


@given(st.lists(numbers, min_size=1, max_size=400), st.integers(1, 50))
def test_thinning_keeps_the_order_and_the_range(values, most):
    points = list(enumerate(values))
    found = thinned(points, most)
    assert len(found) <= max(most, 0) or found == points
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)


def test_thinning_loses_nothing_on_average():
    values = [float(number % 7) for number in range(1000)]
    found = thinned(list(enumerate(values)), 100)
    assert math.isclose(sum(y for _, y in found) / 100, sum(values) / 1000)


@given(st.lists(numbers, min_size=1, max_size=100))
def test_smoothing_stays_within_the_values_and_leaves_a_constant_alone(values):
    found = smoothed(list(enumerate(values)))
    assert [x for x, _ in found] == list(range(len(values)))
    assert all(min(values) - 1e-6 <= y <= max(values) + 1e-6 for _, y in found)
    assert all(math.isclose(y, 3.0) for _, y in smoothed([(x, 3.0) for x in range(len(values))]))


def test_smoothing_takes_out_what_goes_up_and_down():
    found = smoothed([(float(x), float(x % 2)) for x in range(100)])
    assert all(abs(y - 0.5) < 0.1 for _, y in found)


@given(st.text())
def test_text_stays_text(text):
    found = plain(text)
    assert not re.search(r"[<>\"\x00-\x08\x7f\u202e]", found)


def test_a_plot_puts_low_values_below_high_ones():
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 1))
    assert plot.x(0) < plot.x(10)
    assert plot.y(0) > plot.y(1)
    assert "<polyline" in plot.line([(0, 0), (10, 1)], "line")


def matrix(shares, columns=("a", "b"), **more):
    return Matrix(["r"] * len(shares), columns, shares, lambda i, j: "", lambda i, j: f"{i} {j}", **more)


def test_a_matrix_draws_what_is_there_and_says_it():
    drawn = matrix([[0.0, 1.0], [0.5, 0.001]], ringed=frozenset({(1, 1)})).draw("t", "d", "exist", (20, 20))
    assert re.findall(r"<g><title>(\d \d)</title>", drawn) == ["0 1", "1 0", "1 1"]
    assert drawn.count('class="ring"') == 1


def test_long_names_stand_aslant_and_are_cut():
    drawn = matrix([[1.0, 1.0]], ("x" * 40, "<b>")).draw("t", "d", "exist", (20, 20))
    assert "rotate(-52" in drawn
    assert "x" * 15 + "…" in drawn
    assert "x" * 17 not in drawn
    assert "&lt;b&gt;" in drawn


@given(st.lists(st.integers(1, 60).map(float), max_size=200))
def test_ranges_of_lengths_cover_each_length_once(lengths):
    lengths.sort()
    found = _ranges(lengths)
    for length in lengths:
        assert sum(low <= length <= high for low, high in found) == 1


def test_confusion_counts_who_is_taken_for_whom():
    seen = [Seen(1, 1, gold, said) for gold, said in ("ab", "aa", "ab", "ba")]
    assert confusion(seen, ["a", "b"]) == [[1, 2], [1, 0]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 8))
def test_examples_to_show_are_different_and_of_all_lengths(lengths, most):
    lengths.sort()
    examples = [Example((("a",) * length,), 0) for length in lengths]
    found = _spread(range(len(examples)), examples, most)
    shown = [lengths[number] for number in found]
    assert len(shown) == len(set(shown)) == min(most, len(set(lengths)))
    assert shown == sorted(shown)


def test_depth_is_drawn_on_the_same_axes_for_all():
    looks = [
        Look(Variant("a", ()), seen=(Seen(4, 3, "x", "x"), Seen(8, 5, "x", "x"))),
        Look(Variant("b", ()), seen=(Seen(40, 30, "x", "x"), Seen(1, 0, "x", "x"))),
        Look(Variant("c", ())),
    ]
    found = depth_by_length(looks)
    assert list(found) == [0, 1]
    ticks = [re.findall(r'<text class="tick[^>]*>[^<]*</text>', drawing) for drawing in found.values()]
    assert ticks[0] == ticks[1]
    assert depth_by_length([Look(Variant("a", ()), seen=(Seen(1, 0, "x", "x"),))]) == {}
