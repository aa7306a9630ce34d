"""Progress of downloads on a terminal and in a pipe."""

import pytest

from crvnn_core.downloads import progress
from crvnn_core.downloads.progress import Bar, Lines, format_bytes, show_progress


def test_lines_tell_of_a_transfer_now_and_then(capsys, monkeypatch):
    now = iter([0.0, 5.0, 10.0, 10.0, 12.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    lines = Lines()
    lines.began("a.zip", 1000, 4_000_000)
    lines.moved(500_000)
    lines.moved(500_000)
    lines.moved(500_000)
    assert capsys.readouterr().err.splitlines() == [
        "downloading a.zip (4.0 MB, 1.0 kB already present)",
        "a.zip: 1.0 MB of 4.0 MB",
    ]


def test_lines_do_without_a_size(capsys):
    Lines().began("a.zip", 0, None)
    assert capsys.readouterr().err == "downloading a.zip\n"


def test_a_terminal_gets_a_progress_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich, this is a terminal
    with show_progress() as report:
        assert isinstance(report, Bar)
        report.began("a[b].zip", 0, 2_000_000)
        report.moved(1_000_000)
        report.noted("broke off [again]")
        report.began("a[b].zip", 1_000_000, 2_000_000)
        report.moved(1_000_000)
    shown = capsys.readouterr().err
    assert "a[b].zip" in shown
    assert "2.0/2.0 MB" in shown
    assert "broke off [again]" in shown


def test_a_pipe_gets_lines(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with show_progress() as report:
        assert isinstance(report, Lines)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e6, "2.5 MB"), (2.2e9, "2.2 GB")],
)
def test_sizes_have_a_unit(count, text):
    assert format_bytes(count) == text
