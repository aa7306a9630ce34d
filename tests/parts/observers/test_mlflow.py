"""The observer of MLflow, against a stand-in for its package."""

import pytest

from crvnn_parts.observers.mlflow import MLflow
from trackers import fake_mlflow


@pytest.fixture
def runs(monkeypatch):
    return fake_mlflow(monkeypatch)


def test_a_run_has_its_directory_as_a_tag(runs, tmp_path):
    directory = str(tmp_path / "lstm")
    MLflow().started(1, {"directory": directory})
    (run,) = runs.values()
    assert (run.name, run.experiment) == ("lstm", "experiment crvnn")
    assert run.tags["crvnn.directory"] == directory


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
