"""The observer of Weights & Biases, against a stand-in for its package."""

import tomllib

import pytest

from crvnn_core.training.trainer import train
from crvnn_parts.observers.wandb import WandB
from small import variant
from trackers import fake_wandb

OBSERVERS = 'training.observers=["wandb"]'


@pytest.fixture
def runs(monkeypatch):
    return fake_wandb(monkeypatch)


def test_a_run_has_its_spec_every_step_and_its_results(runs, tmp_path):
    outcome = train(variant(OBSERVERS, "seed=2"), tmp_path / "lstm")
    (run,) = runs.values()
    spec = tomllib.loads((tmp_path / "lstm" / "spec.toml").read_text())
    assert run.settings["config"].items() >= spec.items()
    assert run.settings["name"] == "lstm"
    assert run.settings["project"] == "crvnn"
    assert list(run.history) == [1, 2, 3, 4, 5, 6]
    assert {"train/loss", "train/learning_rate", "dev/accuracy"} <= run.history[3].keys()
    assert run.summary["test/accuracy"] == outcome.results["test"].total.accuracy
    assert run.summary["test/3/loss"] == outcome.results["test"].buckets["3"].loss
    assert run.ends == [0]


def test_each_seed_is_a_run_of_its_own(runs, tmp_path):
    for seed in (0, 1):
        train(variant(OBSERVERS, f"seed={seed}"), tmp_path / "lstm" / f"seed-{seed}")
    assert [run.settings["name"] for run in runs.values()] == ["lstm/seed-0", "lstm/seed-1"]


def test_settings_of_the_observer_reach_the_tracker(runs):
    observer = WandB(project="p", entity="e", run="n", group="g", tags=["t"], mode="offline")
    observer.started(1, {})
    (run,) = runs.values()
    expected = {"project": "p", "entity": "e", "name": "n", "group": "g", "tags": ["t"], "mode": "offline"}
    assert run.settings.items() >= expected.items()


def test_messages_are_logged_at_their_step(runs):
    observer = WandB()
    observer.started(3, {"step": 0})
    observer.stepped(2, {"loss": 1.0})
    observer.noted("the learning rate is halved")
    (run,) = runs.values()
    assert run.history[2] == {"train/loss": 1.0, "note": "the learning rate is halved"}
