"""Bars and lines that say how far something has come."""

import io
import sys
import types

import pytest

from crvnn_core.display import progress


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for a notebook's display: the pages that were shown, one list for each output."""
    shown = []

    class Output:
        def __init__(self, page):
            self.pages = [page]

        def update(self, page):
            self.pages.append(page)

    def display(page, display_id):
        shown.append(Output(page))
        return shown[-1]

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display, HTML=str))
    return shown


def test_a_notebook_has_a_bar_that_ends_full(notebook, capsys):
    with progress.counting(200, "a < b") as done:
        for _ in range(200):
            done(1)
        done.print("b < c")
    (output,) = notebook
    assert len(output.pages) < 20
    assert '<progress value="200" max="200"' in output.pages[-1]
    assert "a &lt; b: 200 of 200" in output.pages[-1]
    assert "<div>b &lt; c</div>" in output.pages[-1]
    assert capsys.readouterr() == ("", "")


def test_ipython_in_a_terminal_is_no_notebook(notebook, monkeypatch):
    for shell in (types.SimpleNamespace(), None):
        monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda shell=shell: shell)
        assert not progress.in_notebook()


def test_the_callers_own_function_is_told_and_the_bar_only_if_it_is_wanted(notebook):
    told = []
    for wanted in (False, True):
        with progress.shown(wanted, 3, "predicting", told.append) as done:
            done(1)
            done(2)
    assert told == [1, 2, 1, 2]
    (output,) = notebook
    assert "3 of 3" in output.pages[-1]


def test_in_a_pipe_a_line_now_and_then_says_how_long_the_rest_takes(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.counting(1000, "evaluating") as done:
        for seconds, number in ((20, 100), (40, 100), (45, 100), (100, 200)):
            now[0] = seconds
            done(number)
    assert capsys.readouterr().err.splitlines() == [
        "evaluating: 200 of 1,000  2:40 left",
        "evaluating: 500 of 1,000  1:40 left",
    ]


def test_lines_tell_of_one_transfer_after_the_other(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = progress.Lines(None, "downloading", unit=progress.format_bytes, interval=10.0)
    lines.begin(4_000_000, "a.zip", 1000)
    for seconds in (5, 10, 12):
        now[0] = seconds
        lines(500_000)
    lines.begin(None, "b.zip")
    now[0] = 30
    lines(999)
    assert capsys.readouterr().err.splitlines() == ["a.zip: 1.0 MB of 4.0 MB  0:30 left", "b.zip: 999 bytes"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar_with_lines_above_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress.counting(None, "downloading", unit=progress.format_bytes) as bar:
        bar.begin(2_000_000, "a[b].zip")
        bar(1_000_000)
        bar.print("broke off [again]")
        bar.begin(2_000_000, "a[b].zip", 1_000_000)
        bar(1_000_000)
    drawn = sys.stderr.getvalue()
    for text in ("a[b].zip", "2.0 MB/2.0 MB", "broke off [again]"):
        assert text in drawn


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e6, "2.5 MB"), (2.2e9, "2.2 GB")],
)
def test_sizes_have_a_unit(count, text):
    assert progress.format_bytes(count) == text
