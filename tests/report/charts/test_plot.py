"""Plots: marks at the right place, and text that stays text."""

from hypothesis import given
from hypothesis import strategies as st

from crvnn_report.charts.axis import Axis
from crvnn_report.charts.plot import Plot
from reporting import Outline


def test_a_plot_puts_low_values_below_high_ones():
    plot = Plot(Axis("x", 0, 10), Axis("y", 0, 1))
    assert plot.x(0) < plot.x(10)
    assert plot.y(0) > plot.y(1)
    low, high = plot.line([(0, 0), (10, 1)], "line").points
    assert low == (plot.x(0), plot.y(0))
    assert high == (plot.x(10), plot.y(1))


@given(st.text())
def test_text_stays_text_in_elements_and_in_attributes(text):
    plot = Plot(Axis(text, 0, 10), Axis("y", 0, 1))
    drawn = Outline(plot.draw(text, text, [plot.dot((1, 1), text, text), plot.line([(0, 0)], text)]))
    (circle,), (line,) = drawn.all("circle"), drawn.all("polyline")
    assert [element[2] for element in drawn.all("title")] == [text, text]
    assert drawn.all("text")[-1][2] == text
    assert circle[1].keys() == {"class", "cx", "cy", "r"}
    assert circle[1]["class"] == line[1]["class"] == text
