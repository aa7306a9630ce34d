"""The events of training that observers receive."""

import pytest

from crvnn_core import PluginError, train
from small import Notebook, notes_of, variant
from training_runs import trained


def test_observers_receive_the_start_every_step_every_evaluation_and_the_end(tmp_path):
    assembly, more = variant("training.steps=5"), Notebook()
    assembly.observers.append(more)
    train(assembly, tmp_path / "run")
    notes = assembly.observers[-2]
    size = sum(p.numel() for p in assembly.model.parameters())
    facts = {"parameters": size, "step": 0, "directory": str(tmp_path / "run")}
    assert notes.events[0] == ("started", 5, facts)
    events = ["stepped"] * 3 + ["evaluated"] + ["stepped"] * 2 + ["evaluated"]
    assert notes.kinds == ["started", *events, "finished"]
    assert [step for step, _ in notes.of("stepped")] == [1, 2, 3, 4, 5]
    assert notes.events == more.events
    for _, metrics in notes.of("stepped"):
        assert set(metrics) == {"loss", "accuracy", "depth", "tokens_per_second", "learning_rate"}
        assert 0 <= metrics["accuracy"] <= 1
        assert metrics["tokens_per_second"] > 0
        assert all(type(value) is float for value in metrics.values())
    for step, metrics in notes.of("evaluated"):
        assert step in (3, 5)
        assert set(metrics) == {"loss", "accuracy", "depth"}


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
