"""``crvnn train --resume``, and what an interrupted run says."""

import json
import os
import shutil
import signal
import time

import pytest

from calling import run
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import Trainer
from files import contents
from small import PLUGIN, begin, differences, metrics_of, options, same

QUICK = ("training.steps=2", "training.evaluate_every=2")

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize(
    "more", [("mine.toml",), ("--out", "b"), ("--seeds", "2"), ("--cell", "lstm"), ("--preset", "paper")]
)
def test_a_resumed_run_has_a_spec_already(more):
    result = run("train", "--resume", "a", *more, code=2)
    assert "--resume takes the spec of the run; only --set can change how long and where." in result.stderr


@pytest.mark.parametrize("text", ["model.width=9", "training.batch=4", "seed=3", "task.rows=9", "training=3"])
def test_what_is_trained_cannot_change_when_a_run_is_resumed(letters_run, here, text):
    shutil.copytree(letters_run, here / "a")
    before = contents(here / "a")
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--set", text, code=2)
    assert f"crvnn: --set {text}: this cannot change when a run is resumed" in result.stderr
    for key in [
        "epochs",
        "steps",
        "patience",
        "save_every",
        "accelerator",
        "devices",
        "threads",
        "observers",
    ]:
        assert f"training.{key}" in result.stderr
    assert contents(here / "a") == before


def test_several_seeds_are_resumed_together_even_those_that_had_not_started(here):
    run("train", *options(*QUICK), "--seeds", "3", "--out", "whole")
    shutil.copytree(here / "whole", here / "a")
    (here / "a" / "summary.json").unlink()
    for path in (here / "a" / "seed-2").iterdir():  # it had only been planned
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = run("train", "--plugin", PLUGIN, "--resume", "a", "--json")
    assert list(json.loads(result.stdout)["runs"]) == ["a/seed-0", "a/seed-1", "a/seed-2"]
    one, two = (json.loads((here / path / "summary.json").read_text()) for path in ("a", "whole"))
    assert one == two


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere: there is no such directory"),
        (".", ". is not a run of 'crvnn train': it has no spec.toml"),
    ],
)
def test_a_directory_without_a_run_cannot_be_resumed(name, message):
    assert f"crvnn: {message}" in run("train", "--resume", name, code=2).stderr


def wait_for(condition, process):
    """Wait until something is so, or the process has ended."""
    began = time.monotonic()
    while not condition() and process.poll() is None and time.monotonic() - began < 300:
        time.sleep(0.005)


def test_an_interrupted_run_says_how_to_resume_and_ends_the_same(here):
    sets = (
        "training.steps=60",
        "training.evaluate_every=13",
        "training.save_every=7",
        "model.input_dropout=0.2",
    )
    process = begin("train", *options(*sets), "--out", "a", cwd=here)
    metrics = here / "a" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 10, process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "crvnn: interrupted; resume with: crvnn train --resume a" in errors
    assert "Traceback" not in errors
    assert "interrupted after step" in out
    run("train", "--plugin", PLUGIN, "--resume", "a")
    run("train", *options(*sets), "--out", "b")
    one, two = RunDirectory(here / "a"), RunDirectory(here / "b")
    assert differences(checkpoint.load(one.weights)["model"], checkpoint.load(two.weights)["model"]) == []
    for part in ("model", "optimizer", "position"):
        assert same(checkpoint.load(one.last)[part], checkpoint.load(two.last)[part])
    assert metrics_of(one.path) == metrics_of(two.path)


@pytest.mark.parametrize(
    ("number", "moment"),  # before the first step, after the last one
    [(signal.SIGINT, "begin"), (signal.SIGTERM, "evaluate_best")],
)
def test_an_interruption_outside_the_steps_says_how_to_resume(here, number, moment, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, moment, lambda *args: os.kill(os.getpid(), number))
        result = run("train", *options(), "--out", "a", code=130)
    assert "crvnn: interrupted; resume with: crvnn train --resume a" in result.stderr
    run("train", "--plugin", PLUGIN, "--resume", "a")


def test_an_interruption_among_several_seeds_starts_no_other(here):
    observers = f'training.observers=[{{name="interrupting", step=3, signals=[{int(signal.SIGTERM)}]}}]'
    result = run("train", *options(observers), "--seeds", "2", "--out", "a", code=130)
    assert "crvnn: interrupted; resume with: crvnn train --resume a" in result.stderr
    assert "a/seed-0: interrupted after step 3." in result.stdout
    assert list((here / "a" / "seed-1").iterdir()) == []
    assert not (here / "a" / "summary.json").exists()
    run("train", "--plugin", PLUGIN, "--resume", "a", "--set", "training.observers=[]")
    assert json.loads((here / "a" / "summary.json").read_text())["runs"] == 2


def test_settings_changed_on_resuming_are_written_to_the_spec(letters_run, here):
    shutil.copytree(letters_run, here / "a")
    sets = ("--set", "training.steps=33", "--set", "training.optimizer.learning_rate=0.005")
    run("train", "--plugin", PLUGIN, "--resume", "a", *sets)
    text = (here / "a" / "spec.toml").read_text()
    assert "steps = 33" in text
    assert "learning_rate = 0.005" in text
    (last,) = [row for row in metrics_of(here / "a") if row["step"] == 33 and row["kind"] == "train"]
    assert last["learning_rate"] == 0.005
