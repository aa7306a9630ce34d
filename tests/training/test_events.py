"""The events of training that observers receive."""

import json
import tomllib

import pytest

from crvnn_core import Observer, PluginError
from crvnn_core.training.trainer import train
from small import Notebook, notes_of, variant
from training_runs import trained


def test_observers_receive_the_start_every_step_every_evaluation_and_the_end(tmp_path):
    assembly, more = variant("training.steps=5"), Notebook()
    assembly.observers.append(more)
    train(assembly, tmp_path / "run")
    notes = assembly.observers[-2]
    size = sum(p.numel() for p in assembly.model.parameters())
    (_, steps, facts) = notes.events[0]
    assert steps == 5
    assert facts.items() >= {"parameters": size, "step": 0, "directory": str(tmp_path / "run")}.items()
    events = ["stepped"] * 3 + ["evaluated"] + ["stepped"] * 2 + ["evaluated"]
    assert notes.kinds == ["started", *events, "finished"]
    assert [step for step, _ in notes.of("stepped")] == [1, 2, 3, 4, 5]
    assert notes.events == more.events
    for _, metrics in notes.of("stepped"):
        assert set(metrics) == {"loss", "accuracy", "depth", "tokens_per_second", "seconds", "learning_rate"}
        assert 0 <= metrics["accuracy"] <= 1
        assert metrics["tokens_per_second"] > 0
        assert all(type(value) is float for value in metrics.values())
    for step, metrics in notes.of("evaluated"):
        assert step in (3, 5)
        assert set(metrics) == {"loss", "accuracy", "depth"}


def test_observers_are_told_the_spec_the_seed_and_the_components(tmp_path):
    assembly = variant("seed=4", "model.cell=lstm")
    train(assembly, tmp_path / "run")
    _, _, facts = notes_of(assembly).events[0]
    assert (facts["seed"], facts["stage"]) == (4, 1)
    assert facts["spec"] == tomllib.loads((tmp_path / "run" / "spec.toml").read_text())
    assert facts["components"].items() >= {"task": "letters", "encoder": "crvnn", "cell": "lstm"}.items()


class Late(Observer):
    """Keeps what it is told about evaluations and the end."""

    def __init__(self):
        self.evaluations, self.end = [], None

    def evaluating(self, split, done, examples):
        self.evaluations.append((split, done, examples))

    def finished(self, facts):
        self.end = dict(facts)


def late(assembly, out=None):
    observer = Late()
    assembly.observers.append(observer)
    train(assembly, out)
    return observer


def test_observers_are_told_the_results_at_the_end(tmp_path):
    end = late(variant(), tmp_path / "run").end
    assert end["results"] == json.loads((tmp_path / "run" / "results.json").read_text())["splits"]
    assert {key: end[key] for key in ("finished", "step", "stopped", "error")} == {
        "finished": True,
        "step": 6,
        "stopped": "",
        "error": "",
    }
    json.dumps(end)  # plain values, for a tracker on another machine


def test_observers_are_told_how_far_an_evaluation_has_come():
    evaluations = late(variant("training.evaluate_every=6", "training.evaluate_rows=10")).evaluations
    assert [(split, examples) for split, done, examples in evaluations if done == 0] == [
        ("dev", 10),  # during training
        ("dev", 20),  # the best weights at the end
        ("test", 20),
    ]
    assert [split for split, done, examples in evaluations if done == examples] == ["dev", "dev", "test"]


def test_observers_are_told_which_error_ended_training():
    assembly, observer = variant(), Late()
    assembly.observers.extend([observer, Raising("stepped", RuntimeError("a bug"))])
    with pytest.raises(PluginError):
        train(assembly)
    assert "a bug" in observer.end["error"]
    assert (observer.end["finished"], observer.end["results"]) == (False, {})


def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assembly = trained()
    assert list(tmp_path.iterdir()) == []
    assert notes_of(assembly).events[0][2]["directory"] is None


class Raising(Notebook):
    """Raises an error on one kind of event."""

    def __init__(self, kind, error):
        super().__init__()
        setattr(self, kind, self.fail)
        self.error = error

    def fail(self, *_):
        raise self.error


@pytest.mark.parametrize("kind", ["stepped", "evaluated"])
@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(3)])
def test_observers_are_told_of_the_end_whatever_is_raised(kind, error):
    assembly = variant()
    raising = Raising(kind, error)
    assembly.observers.append(raising)
    with pytest.raises((PluginError, KeyboardInterrupt)) as caught:
        train(assembly)
    assert caught.value is error or f"observer Raising failed in '{kind}'" in str(caught.value)
    assert assembly.observers[-2].kinds[-1] == raising.kinds[-1] == "finished"


def test_observers_that_have_started_are_told_of_the_end_when_another_fails_to_start():
    assembly = variant()
    notes, unready = notes_of(assembly), Raising("started", OSError("the disk is full"))
    assembly.observers.append(unready)
    with pytest.raises(PluginError, match="observer Raising failed in 'started': OSError: the disk is full"):
        train(assembly)
    assert notes.kinds == ["started", "finished"]
    assert unready.kinds == []
