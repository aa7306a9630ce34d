"""The observer of MLflow, against a stand-in for its package."""

import pytest

from crvnn_core.training.trainer import train
from crvnn_parts.observers.mlflow import MLflow
from small import variant
from trackers import fake_mlflow

OBSERVERS = 'training.observers=["mlflow"]'


@pytest.fixture
def runs(monkeypatch):
    return fake_mlflow(monkeypatch)


def test_a_run_has_its_spec_every_step_and_its_results(runs, tmp_path):
    outcome = train(variant(OBSERVERS, "seed=2"), tmp_path / "lstm")
    (run,) = runs.values()
    assert (run.name, run.experiment, run.ends) == ("lstm", "experiment crvnn", ["FINISHED"])
    assert run.params.items() >= {"seed": "2", "model.cell": "gated", "model.width": "8"}.items()
    assert run.steps("train/loss") == [1, 2, 3, 4, 5, 6]
    assert run.steps("dev/loss") == [3, 6, 6]  # the last are the best weights
    values = {metric.key: metric.value for metric in run.metrics}
    assert values["test/accuracy"] == outcome.results["test"].total.accuracy
    assert values["test/3/loss"] == outcome.results["test"].buckets["3"].loss
    assert run.tags["crvnn.directory"] == str(tmp_path / "lstm")


def test_metrics_are_sent_in_batches_and_none_is_lost(runs):
    observer = MLflow()
    observer.started(100, {})
    (run,) = runs.values()
    metrics = {f"m{number}": 0.0 for number in range(9)}
    observer.stepped(1, metrics)
    assert run.metrics == []
    for step in range(2, 101):
        observer.stepped(step, metrics)
    observer.finished({"finished": False, "step": 100, "results": {}})
    assert run.steps("train/m8") == list(range(1, 101))
    assert run.ends == ["KILLED"]


def test_a_group_whose_name_mlflow_refuses_is_renamed(runs):
    score = {"examples": 1, "accuracy": 0.5, "loss": None, "depth": 1.0}
    observer = MLflow()
    observer.started(1, {})
    observer.finished({"step": 1, "results": {"test": {"total": score, "buckets": {"1001+": score}}}})
    (run,) = runs.values()
    assert [metric.key for metric in run.metrics] == [
        "test/accuracy",
        "test/depth",
        "test/1001_/accuracy",
        "test/1001_/depth",
    ]


def test_messages_are_tags(runs):
    observer = MLflow(run="n", experiment="e")
    observer.started(3, {"step": 0})
    observer.stepped(2, {"loss": 1.0})
    observer.noted("the learning rate is halved")
    (run,) = runs.values()
    assert run.tags["crvnn.note.2"] == "the learning rate is halved"
    assert (run.name, run.experiment) == ("n", "experiment e")
