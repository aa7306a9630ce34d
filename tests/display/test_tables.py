"""Tables are aligned, and wrapped where a terminal is too narrow."""

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from crvnn_core.display.tables import Table, print_table, terminal_width


def table_lines(columns, rows, right, width):
    return Table(columns, rows, right).lines(width)


def test_columns_are_aligned_to_the_left_or_right():
    lines = table_lines(("name", "size"), [("a", "1"), ("bcdefg", "1,000")], right=(1,), width=80)
    assert lines == ["name     size", "a           1", "bcdefg  1,000"]


def test_a_table_without_rows_is_its_head():
    assert table_lines(("name", "size"), [], right=(), width=80) == ["name  size"]


def test_the_widest_column_is_wrapped_between_words():
    lines = table_lines(("name", "text"), [("x", "one two three four"), ("y", "five")], right=(), width=20)
    assert lines == ["name  text", "x     one two three", "      four", "y     five"]


def test_a_word_wider_than_its_column_is_broken():
    lines = table_lines(("text",), [("a 0123456789abcdef b",)], right=(), width=10)
    assert lines == ["text", "a", "0123456789", "abcdef b"]


def test_line_ends_are_kept_and_control_characters_removed():
    assert table_lines(("a", "b"), [("x\x1b[1m\r\ny\tz", "1")], (), 80) == ["a     b", "x[1m  1", "y z"]


def test_wide_and_combining_characters_are_counted_as_terminals_show_them():
    lines = table_lines(("a", "b"), [("树木", "1"), ("e\u0301", "2"), ("abcd", "3")], (), 80)
    assert lines == ["a     b", "树木  1", "e\u0301     2", "abcd  3"]


@given(
    rows=st.lists(st.tuples(*[st.text("ab 树\u0301", max_size=30)] * 3), max_size=4),
    width=st.integers(28, 90),
)
def test_nothing_is_lost_and_lines_fit(rows, width):
    lines = table_lines(("x", "y", "z"), rows, (1,), width)
    assert all(len(line) - line.count("\u0301") + line.count("树") <= width for line in lines)
    letters = sorted("".join(lines[1:]).replace(" ", ""))
    assert letters == sorted("".join(map("".join, rows)).replace(" ", ""))


@pytest.mark.parametrize(("columns", "expected"), [("70", 200), ("260", 260)])
def test_a_pipe_is_at_least_200_columns_wide(columns, expected, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    with CliRunner().isolation():
        assert terminal_width() == expected


def test_a_terminal_is_as_wide_as_it_says(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "12")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert terminal_width() == 12
    print_table(("text",), [("one two three",)])
    assert capsys.readouterr().out.splitlines() == ["\x1b[1mtext\x1b[0m", "one two", "three"]


def test_as_markdown_columns_are_aligned_and_bars_escaped():
    table = Table(("name", "size"), [("a|b", "1"), ("two\nlines", "2")], right=(1,))
    assert table.markdown() == "| name | size |\n| --- | ---: |\n| a\\|b | 1 |\n| two lines | 2 |\n"
