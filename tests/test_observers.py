"""Observers: a progress bar for people, lines for pipes, JSON for machines."""

import io
import json
import sys

import pytest

from crvnn_plugins.observers import JsonLines, Progress

METRICS = {"loss": 1.23456, "accuracy": 0.5}


def train(observer, steps, until=None):
    observer.started(steps, {"parameters": 3})
    for step in range(1, (until or steps) + 1):
        observer.stepped(step, METRICS)
    observer.finished({})


@pytest.mark.parametrize(("steps", "lines"), [(100, 10), (7, 3), (3, 10), (1000, 1), (1, 1)])
def test_in_a_pipe_progress_prints_so_many_plain_lines(capsys, steps, lines):
    train(Progress(lines=lines), steps)
    captured = capsys.readouterr()
    assert captured.out == ""
    printed = captured.err.splitlines()
    assert len(printed) == min(steps, lines)
    assert printed[-1] == f"step {steps} of {steps}  loss 1.23  accuracy 0.5"
    assert "\x1b" not in captured.err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_progress_draws_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    observer = Progress()
    train(observer, 4)
    assert "training" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
    assert "loss 1.23" in terminal.getvalue()
    assert observer._bar is None


def test_an_interrupted_bar_is_put_away_and_can_be_used_again(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    observer = Progress()
    train(observer, 10, until=3)
    assert observer._bar is None
    train(observer, 2)


def test_progress_refuses_to_print_no_lines():
    with pytest.raises(ValueError, match="lines must be at least 1, not 0"):
        Progress(lines=0)


def test_each_step_is_one_json_object(tmp_path):
    path = tmp_path / "deep" / "metrics.jsonl"
    train(JsonLines(str(path)), 3)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"step": step, **METRICS} for step in (1, 2, 3)]


def test_a_step_is_in_the_file_as_soon_as_it_is_done(tmp_path):
    path = tmp_path / "metrics.jsonl"
    observer = JsonLines(str(path))
    observer.started(2, {})
    observer.stepped(1, METRICS)
    assert json.loads(path.read_text())["step"] == 1
    observer.finished({})


def test_a_second_run_is_added_to_the_first(tmp_path):
    path = tmp_path / "metrics.jsonl"
    train(JsonLines(str(path)), 2)
    train(JsonLines(str(path)), 1)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 1]


def test_building_an_observer_makes_no_file(tmp_path):
    JsonLines(str(tmp_path / "metrics.jsonl"))
    assert list(tmp_path.iterdir()) == []
