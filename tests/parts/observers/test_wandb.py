"""The observer of Weights & Biases, against a stand-in for its package."""

import pytest

from crvnn_parts.observers.wandb import WandB
from trackers import fake_wandb


@pytest.fixture
def runs(monkeypatch):
    return fake_wandb(monkeypatch)


def test_each_seed_is_a_run_of_its_own(runs, tmp_path):
    for seed in (0, 1):
        WandB().started(1, {"directory": str(tmp_path / "lstm" / f"seed-{seed}")})
    assert [(run.name, run.settings["project"]) for run in runs.values()] == [
        ("lstm/seed-0", "crvnn"),
        ("lstm/seed-1", "crvnn"),
    ]


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
