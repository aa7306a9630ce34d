"""Charts: round ticks, marks at the right place, and text that stays text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.display.charts import Axis, Matrix, Plot, tick_label
from reporting import Outline

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


def test_a_plot_puts_low_values_below_high_ones():
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 1))
    assert (plot.x(0), plot.x(10), plot.y(0), plot.y(1)) == (50, 446, 226, 12)
    assert 'points="50.0,226.0 446.0,12.0"' in plot.line([(0, 0), (10, 1)], "line")


@given(st.text())
def test_text_stays_text_in_elements_and_in_attributes(text):
    plot = Plot(Axis(text, 0, 10), Axis("y", 0, 1))
    drawn = Outline(plot.draw(text, text, [plot.dot((1, 1), text, text), plot.line([(0, 0)], text)]))
    (circle,), (line,) = drawn.all("circle"), drawn.all("polyline")
    assert [element[2] for element in drawn.all("title")] == [text, text]
    assert drawn.all("text")[-1][2] == text
    assert circle[1].keys() == {"class", "cx", "cy", "r"}
    assert circle[1]["class"] == line[1]["class"] == text


def matrix(shares, columns=("a", "b"), **more):
    return Matrix(["r"] * len(shares), columns, shares, lambda i, j: "", lambda i, j: f"{i} {j}", **more)


def test_a_matrix_draws_cells_with_a_value_or_a_frame_and_their_tooltips():
    drawn = matrix([[0.0, 1.0], [0.5, 0.001]], framed=frozenset({(1, 1)})).draw("t", "d", "exist", (20, 20))
    assert re.findall(r"<g><title>(\d \d)</title>", drawn) == ["0 1", "1 0", "1 1"]
    assert drawn.count('class="frame"') == 1


def test_long_names_are_slanted_and_shortened():
    drawn = matrix([[1.0, 1.0]], ("x" * 40, "<b>")).draw("t", "d", "exist", (20, 20))
    assert "rotate(-52" in drawn
    assert "x" * 15 + "…" in drawn
    assert "x" * 17 not in drawn
    assert "&lt;b&gt;" in drawn


def test_names_are_slanted_where_they_cannot_stand_side_by_side():
    short, long = Axis.of_names("x", ["a", "b"]), Axis.of_names("", ["a" * 30, "b" * 30])
    assert [short.format(tick) for tick in short.ticks()] == ["a", "b"]
    assert (short.slanted, long.slanted) == (False, True)
