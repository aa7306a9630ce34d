"""Heat maps and confusion matrices."""

import re

from crvnn_report.charts.matrix import Matrix


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
