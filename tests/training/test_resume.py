"""Resuming: training that was stopped at any moment ends as if it never had been."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from crvnn_core import Result, Score, signals
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training import trainer as training
from crvnn_core.training.trainer import train
from files import contents
from small import Interrupting, differences, metrics_of, notes_of, variant, weights
from training_runs import Growing, Killed, assert_same_run, stopped_after

# Dropout, an optimizer with a memory, and looks and checkpoints that fall on different steps.
UNEVEN = (
    "model.input_dropout=0.2",
    "model.output_dropout=0.1",
    "training.optimizer=ranger",
    "training.evaluate_every=7",
    "training.save_every=3",
    "training.halve_after=1",
    "training.anneal=true",
    "training.steps=16",
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A run that was never stopped."""
    path = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(variant(*UNEVEN), path)
    return path


@pytest.mark.parametrize("step", [1, 7, 8, 16])
def test_a_run_killed_after_any_step_ends_as_if_it_never_had_been(step, uninterrupted, tmp_path):
    stopped_after(step, tmp_path / "run", *UNEVEN)
    again = variant(*UNEVEN)
    train(again, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)
    kept = checkpoint.load(RunDirectory(tmp_path / "run").weights)["model"]
    assert differences(weights(again), kept) == []  # they are in the model
    (_, facts), *_ = notes_of(again).of("started")
    assert facts["step"] == max(saved for saved in (0, 3, 6, 7, 9, 12, 14, 15) if saved < step)


@pytest.fixture
def past_the_peak(monkeypatch):
    """Looks that find the model at its best after step 4 of 8."""

    def evaluate(self, split, examples):
        return Result(Score(1, {2: 0.5, 4: 0.9, 6: 0.4, 8: 0.3}[self.position.step], 1.0, 0.0), {})

    monkeypatch.setattr(training.Trainer, "_evaluate", evaluate)
    return (
        "training.evaluate_every=2",
        "training.save_every=3",
        "training.steps=8",
        "model.input_dropout=0.2",
    )


def test_a_run_killed_before_any_file_is_put_in_its_place_ends_the_same(past_the_peak, tmp_path, monkeypatch):
    train(variant(*past_the_peak), tmp_path / "whole")
    replace = Path.replace
    killed = 0
    for fatal in range(1, 50):
        run = tmp_path / f"run-{fatal}"
        done = []

        def replace_until_killed(self, target, fatal=fatal, done=done):
            done.append(target)
            if len(done) == fatal:
                raise Killed
            return replace(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace_until_killed)
            try:
                train(variant(*past_the_peak), run)
            except Killed:
                killed += 1
            else:
                break
        train(variant(*past_the_peak), run, resume=(run / "spec.toml").exists())
        assert_same_run(run, tmp_path / "whole")
    assert killed > 10  # three files to begin with, five saved states, two best weights, and the results


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_epochs_of_different_sizes_are_taken_up_alike(step, tmp_path):
    sets = ("training.epochs=5", "training.steps=0", "training.evaluate_every=2", "training.save_every=1")
    train(variant(*sets, "training.anneal=true", task=Growing), tmp_path / "whole")
    stopped_after(step, tmp_path / "run", *sets, "training.anneal=true", task=Growing)
    train(variant(*sets, "training.anneal=true", task=Growing), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_training_that_had_stopped_early_stays_stopped(tmp_path, monkeypatch):
    scores = {1: 0.5, 2: 0.4, 3: 0.3, 4: 0.2}
    monkeypatch.setattr(
        training.Trainer,
        "_evaluate",
        lambda self, split, examples: Result(Score(1, scores[self.position.step], 1.0, 0.0), {}),
    )
    sets = ("training.evaluate_every=1", "training.patience=3", "training.steps=50")
    first = train(variant(*sets), tmp_path / "run")
    again = train(variant(*sets), tmp_path / "run", resume=True)
    assert again == first
    assert (again.step, again.stopped) == (4, "no better since step 1")


def test_taking_up_a_finished_run_changes_nothing(uninterrupted):
    before = contents(uninterrupted)
    again = variant(*UNEVEN)
    assert train(again, uninterrupted, resume=True).step == 16
    assert notes_of(again).of("stepped") == []
    assert contents(uninterrupted) == before


def test_a_finished_run_can_be_trained_for_longer(tmp_path):
    train(variant("training.steps=4"), tmp_path / "run")
    outcome = train(variant("training.steps=9"), tmp_path / "run", resume=True)
    assert outcome.step == 9
    steps = [row["step"] for row in metrics_of(tmp_path / "run") if row["kind"] == "train"]
    assert steps == list(range(1, 10))


def test_more_epochs_go_on_where_the_last_ones_ended(tmp_path):
    sets = ("training.steps=0", "training.evaluate_every=0", "training.halve_after=0")
    train(variant(*sets, "training.epochs=4"), tmp_path / "whole")
    train(variant(*sets, "training.epochs=2"), tmp_path / "run")
    train(variant(*sets, "training.epochs=4"), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize(("step", "number"), [(5, signal.SIGINT), (5, signal.SIGTERM), (16, signal.SIGINT)])
def test_an_interruption_lets_the_step_finish_and_saves(step, number, uninterrupted, tmp_path):
    assembly = variant(*UNEVEN)
    assembly.observers.append(Interrupting(step, [number]))
    before = signal.getsignal(number)
    outcome = train(assembly, tmp_path / "run")
    assert (outcome.step, outcome.finished, outcome.results) == (step, False, {})
    assert outcome.stopped == ("" if step == 16 else "interrupted after step 5")
    assert signal.getsignal(number) is before
    assert assembly.observers[-2].kinds[-1] == "finished"
    assert checkpoint.load(RunDirectory(tmp_path / "run").last)["position"]["step"] == step
    assert train(variant(*UNEVEN), tmp_path / "run", resume=True).finished
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_second_interruption_does_not_wait(uninterrupted, tmp_path):
    assembly = variant(*UNEVEN)
    assembly.observers.append(Interrupting(5, [signal.SIGINT] * 2))
    with pytest.raises(KeyboardInterrupt):
        train(assembly, tmp_path / "run")
    assert assembly.observers[-2].kinds[-1] == "finished"
    train(variant(*UNEVEN), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_hangs_is_ended_by_the_second_interruption(number, monkeypatch, capsys):
    ended = []
    monkeypatch.setattr(signals, "GRACE", 0.05)
    monkeypatch.setattr(os, "_exit", ended.append)
    with signals.Interruption().deferred():
        for _ in range(2):  # a step that catches everything
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        deadline = time.monotonic() + 10
        while not ended and time.monotonic() < deadline:
            time.sleep(0.01)
    assert ended == [128 + number]
    assert "crvnn: this cannot be interrupted, so the process ends" in capsys.readouterr().err


def test_an_interruption_that_stops_the_step_does_not_end_the_process(monkeypatch):
    ended = []
    monkeypatch.setattr(signals, "GRACE", 0.05)
    monkeypatch.setattr(os, "_exit", ended.append)
    with pytest.raises(KeyboardInterrupt), signals.Interruption().deferred():
        list(map(os.kill, [os.getpid()] * 2, [signal.SIGTERM] * 2))
    time.sleep(0.1)
    assert ended == []


def test_without_a_directory_an_interruption_ends_training_at_once():
    assembly = variant()
    assembly.observers.append(Interrupting(2, [signal.SIGINT]))
    with pytest.raises(KeyboardInterrupt):
        train(assembly)
    assert len(assembly.observers[-2].of("stepped")) == 2


def test_a_run_without_any_checkpoint_is_begun_anew(tmp_path):
    train(variant("model.input_dropout=0.2"), tmp_path / "whole")
    stopped_after(2, tmp_path / "run", "model.input_dropout=0.2")
    assert not RunDirectory(tmp_path / "run").last.exists()
    train(variant("model.input_dropout=0.2"), tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
