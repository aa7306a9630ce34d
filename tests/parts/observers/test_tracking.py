"""What the observers of all experiment trackers do alike, against stand-ins for their packages."""

import sys

import pytest

from crvnn_core import CrvnnError, resume_training
from crvnn_core.training.trainer import train
from crvnn_parts.observers.mlflow import MLflow
from crvnn_parts.observers.wandb import WandB
from small import catalog_with, variant
from trackers import fake_mlflow, fake_wandb
from training_runs import Killed, Killing

#: By name: the stand-in, the observer, how a run of it ends after a kill and a resumption, and why it fails.
TRACKERS = {
    "mlflow": (
        fake_mlflow,
        MLflow,
        ["FAILED", "RUNNING", "FINISHED"],
        "MLflow cannot be reached: no API key",
    ),
    "wandb": (fake_wandb, WandB, [1, 0], r"(?s)no API key.*WANDB_MODE=offline"),
}


@pytest.fixture(params=TRACKERS)
def tracker(request):
    return request.param


def observers(tracker):
    return f'training.observers=["{tracker}"]'


def test_a_run_has_its_spec_every_step_and_its_results(tracker, monkeypatch, tmp_path):
    runs = TRACKERS[tracker][0](monkeypatch)
    outcome = train(variant(observers(tracker), "seed=2"), tmp_path / "lstm")
    (run,) = runs.values()
    assert (run.name, run.ends) == ("lstm", TRACKERS[tracker][2][-1:])
    assert run.params.items() >= {"seed": "2", "model.cell": "gated", "model.width": "8"}.items()
    assert run.steps("train/loss") == [1, 2, 3, 4, 5, 6]
    assert set(run.steps("dev/loss")) == {3, 6}
    assert run.results["test/accuracy"] == outcome.results["test"].total.accuracy
    assert run.results["test/3/loss"] == outcome.results["test"].buckets["3"].loss


def test_a_resumed_run_continues_the_same_run_and_logs_no_step_twice(tracker, monkeypatch, tmp_path):
    fake, _, ends, _ = TRACKERS[tracker]
    runs = fake(monkeypatch)
    assembly = variant(observers(tracker))
    assembly.observers.append(Killing(5))  # the last checkpoint is that of step 3
    with pytest.raises(Killed):
        train(assembly, tmp_path / "run")
    ((name, run),) = runs.items()
    first = run.values("train/loss")
    assert list(first) == [1, 2, 3, 4, 5]
    resume_training(tmp_path / "run", sets=["training.steps=7"], catalog=catalog_with())
    assert list(runs) == [name]
    assert run.steps("train/loss") == [1, 2, 3, 4, 5, 6, 7]
    assert run.values("train/loss").items() >= first.items()
    assert run.ends == ends


def test_a_tracker_that_cannot_be_reached_is_one_message(tracker, monkeypatch):
    fake, observer, _, message = TRACKERS[tracker]
    fake(monkeypatch, error="no API key")
    observing = observer()
    with pytest.raises(CrvnnError, match=message):
        observing.started(1, {})
    observing.finished({})


def test_without_the_package_one_message_says_what_to_install(tracker, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, tracker, None)
    with pytest.raises(CrvnnError, match=rf"pip install 'crvnn\[{tracker}\]'"):
        train(variant(observers(tracker)), tmp_path / "run")
