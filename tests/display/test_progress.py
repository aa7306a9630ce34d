"""Bars and lines that say how far something has come."""

import sys
import time
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
    (output,) = notebook
    assert len(output.pages) < 20
    assert '<progress value="200" max="200"' in output.pages[-1]
    assert "a &lt; b: 200 of 200" in output.pages[-1]
    assert capsys.readouterr() == ("", "")


def test_both_the_bar_and_the_callers_own_function_are_told(notebook):
    told = []
    with progress.shown(True, 3, "predicting", told.append) as done:
        done(1)
        done(2)
    assert told == [1, 2]
    assert "3 of 3" in notebook[0].pages[-1]


def test_without_progress_nothing_is_shown(notebook):
    with progress.shown(False, 3, "predicting") as done:
        done(3)
    assert notebook == []


def test_a_single_item_that_takes_long_is_heard_of(monkeypatch, capsys):
    monkeypatch.setattr(progress.Lines, "interval", 0.01)
    with progress.counting(1, "predicting"):
        time.sleep(0.2)
    assert "predicting: 0 of 1, 0:00 so far" in capsys.readouterr().err
