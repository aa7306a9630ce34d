"""The progress observer: a bar for people, plain lines for pipes."""

import io
import re
import sys

import pytest

from crvnn_core.display import progress as display
from crvnn_core.training.trainer import train as train_model
from crvnn_parts.observers.progress import Progress
from small import variant

METRICS = {
    "loss": 1.23456,
    "accuracy": 0.5,
    "depth": 3.25,
    "tokens_per_second": 12345.6,
    "learning_rate": 0.001,
}
SHOWN = "loss 1.235  accuracy 50.0%  depth 3.2  12,346 tokens/s"


def train(observer, steps, until=None, step=0):
    observer.started(steps, {"parameters": 3, "step": step, "directory": None})
    for number in range(step + 1, (until or steps) + 1):
        observer.stepped(number, METRICS)
    observer.finished({})


@pytest.mark.parametrize(("steps", "lines"), [(100, 10), (7, 3), (3, 10), (1000, 1), (1, 1)])
def test_in_a_pipe_progress_prints_so_many_plain_lines(capsys, steps, lines):
    train(Progress(lines=lines), steps)
    captured = capsys.readouterr()
    assert captured.out == ""
    heading, *printed = captured.err.splitlines()
    assert heading == f"training: 3 parameters, {steps:,} steps"
    assert len(printed) == min(steps, lines)
    assert printed[-1] == f"step {steps} of {steps}  {SHOWN}"
    assert all(line.startswith("step") and line.endswith(" left") for line in printed[:-1])
    assert "\x1b" not in captured.err


def test_a_resumed_run_spreads_its_lines_over_the_steps_that_are_left(capsys):
    train(Progress(lines=5), 100, step=75)
    printed = capsys.readouterr().err
    assert printed.startswith("training: 3 parameters, 100 steps, from step 75\n")
    steps = re.findall(r"^step (\d+) of 100", printed, flags=re.MULTILINE)
    assert steps == ["80", "85", "90", "95", "100"]


class Clock:
    """Time that passes when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(display, "time", found)
    return found


def test_in_a_slow_run_there_is_a_line_every_so_many_seconds(capsys, clock):
    observer = Progress(lines=1, seconds=60)
    observer.started(1000, {"parameters": 3})
    for step in range(1, 101):
        clock.now += 5
        observer.stepped(step, {"loss": 1.0})
    _, *printed = capsys.readouterr().err.splitlines()
    # the first as soon as the time left can be told, then every minute
    assert [int(line.split()[1]) for line in printed] == [1, 13, 25, 37, 49, 61, 73, 85, 97]
    assert printed[0] == "step 1 of 1000  loss 1.000  1:23:15 left"
    assert printed[-1] == "step 97 of 1000  loss 1.000  1:15:15 left"


def test_a_long_evaluation_has_lines_too(capsys, clock):
    observer = Progress(lines=1, seconds=30)
    observer.started(10, {})
    observer.stepped(10, {"loss": 1.0})
    observer.evaluating("test", 0, 1000)
    for done in range(100, 1001, 100):
        clock.now += 20
        observer.evaluating("test", done, 1000)
    assert capsys.readouterr().err.splitlines()[2:] == [
        "step 10 of 10  evaluating test: 200 of 1,000, 2:40 left",
        "step 10 of 10  evaluating test: 400 of 1,000, 2:00 left",
        "step 10 of 10  evaluating test: 600 of 1,000, 1:20 left",
        "step 10 of 10  evaluating test: 800 of 1,000, 0:40 left",
    ]


def test_the_first_line_names_components_parameters_seed_and_steps(capsys):
    assembly = variant("seed=3")
    assembly.observers[:] = [Progress()]
    train_model(assembly)
    size = sum(parameter.numel() for parameter in assembly.model.parameters())
    assert capsys.readouterr().err.splitlines()[0] == (
        "letters, embedding random, retriever adhoc, scorer window, decision modulated, cell gated, "
        f"halting threshold, encoder crvnn: {size:,} parameters, seed 3, 6 steps"
    )


def test_the_first_line_of_a_run_in_stages_names_the_stage(capsys):
    Progress().started(40, {"stage": 2, "spec": {"stages": [{}, {}, {}]}, "step": 30})
    assert capsys.readouterr().err == "training: stage 2 of 3 to step 40, from step 30\n"


def test_each_stage_has_its_lines_also_after_one_that_ended_early(capsys):
    observer = Progress(lines=2)
    observer.started(100, {"step": 0})
    for step in range(1, 61):
        observer.stepped(step, METRICS)
    observer.stage_started(80, {"stage": 2})
    for step in range(61, 81):
        observer.stepped(step, METRICS)
    observer.finished({})
    printed = re.findall(r"^step (\d+) of (\d+)", capsys.readouterr().err, flags=re.MULTILINE)
    assert printed == [("50", "100"), ("70", "80"), ("80", "80")]


def test_development_results_and_notes_have_lines_of_their_own(capsys):
    observer = Progress(lines=1)
    observer.started(100, {})
    observer.stepped(1, METRICS)
    observer.evaluated(1, {"loss": 0.5, "accuracy": 0.8125, "depth": 2.0, "f1": 0.123456})
    observer.noted("the learning rate is halved")
    observer.finished({})
    assert capsys.readouterr().err.splitlines()[1:] == [
        "step 1 of 100  development: loss 0.500  accuracy 81.2%  depth 2.0  f1 0.123",
        "the learning rate is halved",
    ]


def test_the_loss_is_a_mean_over_the_last_steps(capsys):
    observer = Progress(lines=200)
    observer.started(200, {})
    for step in range(1, 201):
        observer.stepped(step, {"loss": 1.0 if step <= 100 else step % 2 * 2.0 + 2.0})  # then 2, 4, 2, 4 ...
    shown = [float(line.split()[5]) for line in capsys.readouterr().err.splitlines()[1:]]
    assert shown[99] == 1.0
    assert 1.0 < shown[100] < 1.5
    assert all(abs(loss - 3) < 0.1 for loss in shown[-20:])


def test_the_mean_of_one_run_is_not_carried_into_the_next(capsys):
    observer = Progress(lines=1)
    for loss in (9.0, 1.0):
        observer.started(1, {})
        observer.stepped(1, {"loss": loss})
        observer.finished({})
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step")]
    assert printed == ["step 1 of 1  loss 9.000", "step 1 of 1  loss 1.000"]


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def text(self):
        """What was drawn, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


def terminal(monkeypatch, columns=100):
    """Standard error as a terminal. Not a fixture: pytest takes standard error back after those."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    return sys.stderr


def test_on_a_terminal_progress_draws_a_bar(monkeypatch):
    screen = terminal(monkeypatch)
    observer = Progress()
    train(observer, 4)
    assert "━" in screen.text()
    assert "4/4" in screen.text()
    assert SHOWN in screen.text()
    assert observer._bar is None


def test_the_bar_of_a_resumed_run_begins_where_it_stands(monkeypatch):
    screen = terminal(monkeypatch)
    observer = Progress()
    observer.started(200, {"step": 150})
    observer.finished({})
    assert "150/200" in screen.text()


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_is_one_line_that_fits_the_terminal(monkeypatch, columns):
    screen = terminal(monkeypatch, columns)
    train(Progress(), 40_000, until=39_990, step=39_900)
    drawn = [line for line in re.split(r"[\r\n]", screen.text()) if "40000" in line]
    assert drawn
    assert max(map(len, drawn)) <= columns
    assert drawn[-1].rstrip().endswith(SHOWN)


def test_results_and_notes_are_printed_above_the_bar_as_they_are(monkeypatch):
    screen = terminal(monkeypatch)
    observer = Progress()
    observer.started(10, {})
    note = "left out: [MIN 1 2 ] and " + "a long list " * 12
    observer.evaluated(5, {"accuracy": 0.5})
    observer.noted(note.strip())
    observer.finished({})
    lines = re.split(r"[\r\n]+", screen.text())
    assert "step 5 of 10  development: accuracy 50.0%" in lines
    assert note.strip() in lines


def test_an_interrupted_bar_is_put_away_and_can_be_used_again(monkeypatch):
    screen = terminal(monkeypatch)
    observer = Progress()
    train(observer, 10, until=3)
    assert observer._bar is None
    train(observer, 2)
    assert "2/2" in screen.text()


def test_a_bar_shows_how_far_an_evaluation_has_come(monkeypatch):
    screen = terminal(monkeypatch)
    observer = Progress()
    observer.started(10, {})
    observer.evaluating("dev", 30, 40)
    observer.finished({})
    assert "evaluating dev: 30 of 40" in screen.text()
