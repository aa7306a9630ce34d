"""The events of training that observers receive."""

import json
import tomllib

import pytest

from crvnn_core import Observer, PluginError
from crvnn_core.training.trainer import train
from small import Notebook, notes_of, variant
from training_runs import trained


class Late(Observer):
    """Keeps what it is told about evaluations and the end."""

    def __init__(self):
        self.evaluations, self.end = [], None

    def evaluating(self, split, done, examples):
        self.evaluations.append((split, done, examples))

    def finished(self, facts):
        self.end = dict(facts)


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A variant that was trained for 5 steps, two notebooks and another observer, and the run directory."""
    assembly = variant("training.steps=5", "training.evaluate_rows=10", "seed=4", "model.cell=lstm")
    observers = [assembly.observers[0], Notebook(), Late()]
    assembly.observers[:] = observers
    path = tmp_path_factory.mktemp("observed") / "run"
    train(assembly, path)
    return assembly, *observers, path


def test_observers_receive_the_start_every_step_every_evaluation_and_the_end(observed):
    _, notes, more, _, _ = observed
    events = ["stepped"] * 3 + ["evaluated"] + ["stepped"] * 2 + ["evaluated"]
    assert notes.kinds == ["started", *events, "finished"]
    assert notes.events == more.events
    assert [step for step, _ in notes.of("stepped")] == [1, 2, 3, 4, 5]
    for _, metrics in notes.of("stepped"):
        assert set(metrics) == {"loss", "accuracy", "depth", "tokens_per_second", "seconds", "learning_rate"}
        assert 0 <= metrics["accuracy"] <= 1
        assert metrics["tokens_per_second"] > 0
        assert all(type(value) is float for value in metrics.values())
    assert [step for step, _ in notes.of("evaluated")] == [3, 5]
    for _, metrics in notes.of("evaluated"):
        assert set(metrics) == {"loss", "accuracy", "depth"}


def test_observers_are_told_what_is_trained_and_where(observed):
    assembly, notes, _, _, path = observed
    (_, steps, facts) = notes.events[0]
    size = sum(p.numel() for p in assembly.model.parameters())
    wanted = {"parameters": size, "step": 0, "directory": str(path), "seed": 4, "stage": 1}
    assert steps == 5
    assert facts.items() >= wanted.items()
    assert facts["spec"] == tomllib.loads((path / "spec.toml").read_text())
    assert facts["components"].items() >= {"task": "letters", "encoder": "crvnn", "cell": "lstm"}.items()


def test_observers_are_told_the_results_at_the_end(observed):
    *_, late, path = observed
    end = late.end
    assert end["results"] == json.loads((path / "results.json").read_text())["splits"]
    assert {key: end[key] for key in ("finished", "step", "stopped", "error")} == {
        "finished": True,
        "step": 5,
        "stopped": "",
        "error": "",
    }
    json.dumps(end)  # plain values, for a tracker on another machine


def test_observers_are_told_how_far_an_evaluation_has_come(observed):
    *_, late, _ = observed
    training, best = [("dev", 10)] * 2, [("dev", 20), ("test", 20)]
    for when in (lambda done, examples: done == 0, lambda done, examples: done == examples):
        told = [(split, examples) for split, done, examples in late.evaluations if when(done, examples)]
        assert told == training + best


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
@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt("now"), SystemExit("left")])
def test_observers_are_told_of_the_end_whatever_is_raised(kind, error):
    assembly, raising, late = variant(), Raising(kind, error), Late()
    assembly.observers.extend([raising, late])
    with pytest.raises((PluginError, KeyboardInterrupt)) as caught:
        train(assembly)
    assert caught.value is error or f"observer Raising failed in '{kind}'" in str(caught.value)
    assert assembly.observers[0].kinds[-1] == raising.kinds[-1] == "finished"
    assert str(error) in late.end["error"]
    assert (late.end["finished"], late.end["results"]) == (False, {})


def test_observers_that_have_started_are_told_of_the_end_when_another_fails_to_start():
    assembly = variant()
    notes, unready = notes_of(assembly), Raising("started", OSError("the disk is full"))
    assembly.observers.append(unready)
    with pytest.raises(PluginError, match="observer Raising failed in 'started': OSError: the disk is full"):
        train(assembly)
    assert notes.kinds == ["started", "finished"]
    assert unready.kinds == []
