"""The TensorBoard observer: its curves, and what it says without the package."""

import sys

import pytest

from crvnn_core import CrvnnError
from crvnn_parts.observers.tensorboard import TensorBoard

METRICS = {"loss": 1.5, "accuracy": 0.25}


def run(observer, first, last, facts):
    observer.started(9, facts)
    for step in range(first, last + 1):
        observer.stepped(step, {**METRICS, "loss": float(step)})
    observer.evaluated(last, METRICS)
    observer.noted(f"stopped at {last}")
    observer.finished({})


def curves(directory):
    """What TensorBoard would draw: steps and values by name, and the texts."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    tags = events.Tags()
    drawn = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]}
    texts = [
        event.tensor_proto.string_val[0].decode() for tag in tags["tensors"] for event in events.Tensors(tag)
    ]
    return drawn, texts


@pytest.fixture
def installed():
    pytest.importorskip("tensorboard", reason="the extra 'track' is not installed")


@pytest.mark.usefixtures("installed")
def test_steps_development_results_and_notes_become_curves_and_texts(tmp_path):
    run(TensorBoard(), 1, 3, {"step": 0, "directory": str(tmp_path)})
    drawn, texts = curves(tmp_path / "tensorboard")
    assert drawn["train/loss"] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert drawn["dev/accuracy"] == [(3, 0.25)]
    assert texts == ["stopped at 3"]


@pytest.mark.usefixtures("installed")
def test_a_resumed_run_draws_no_step_twice(tmp_path):
    facts = {"step": 0, "directory": str(tmp_path)}
    run(TensorBoard(), 1, 5, facts)
    run(TensorBoard(), 4, 6, {**facts, "step": 3})  # the last checkpoint was written at step 3
    drawn, _ = curves(tmp_path / "tensorboard")
    assert [step for step, _ in drawn["train/loss"]] == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("installed")
def test_a_named_directory_comes_before_that_of_the_run(tmp_path):
    run(TensorBoard(str(tmp_path / "mine")), 1, 1, {"directory": str(tmp_path / "run")})
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.usefixtures("installed")
def test_without_a_run_directory_the_curves_are_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(TensorBoard(), 1, 1, {"directory": None})
    assert curves(tmp_path / "tensorboard")[0]["train/loss"] == [(1, 1.0)]


@pytest.mark.usefixtures("installed")
def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(CrvnnError, match=r"taken.* cannot be written"):
        TensorBoard(str(tmp_path / "taken")).started(1, {})


def test_without_the_package_one_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    observer = TensorBoard(str(tmp_path / "curves"))  # building it asks for nothing
    with pytest.raises(CrvnnError, match=r"pip install 'crvnn\[track\]'"):
        observer.started(1, {})
    observer.finished({})
    assert list(tmp_path.iterdir()) == []
