"""The contract of observers: built-in observers satisfy it, and each check fails for an observer that violates it."""

import pytest

from contract_cases import contract_tests
from crvnn_core import Observer
from trackers import fake_mlflow, fake_wandb


@pytest.fixture(autouse=True)
def without_servers(monkeypatch, request):
    if "tensorboard-" in request.node.name:
        pytest.importorskip("tensorboard")
    fake_wandb(monkeypatch)
    fake_mlflow(monkeypatch)


class PlainObserver(Observer):
    pass


class OnlyOnce(Observer):
    running = False

    def started(self, steps, facts):
        assert not self.running, "started twice"
        self.running = True


class FromTheFirstStep(Observer):
    """Assumes that every run starts at its first step."""

    def started(self, steps, facts):
        self.losses = []

    def stepped(self, step, metrics):
        self.losses.append(metrics["loss"])
        assert len(self.losses) == step, "a step is missing"


class NeedsAStep(Observer):
    last = None

    def stepped(self, step, metrics):
        self.last = metrics["loss"]

    def finished(self, facts):
        self.last + 0.0


class RemovesMetrics(Observer):
    def stepped(self, step, metrics):
        metrics.pop("loss", None)


#: A check, an observer that fails it, and a part of the reason that is given.
FAULTY = [
    ("is_an_observer", object, "subclass crvnn_core.Observer"),
    ("survives_a_training_run", OnlyOnce, "started twice"),
    ("survives_a_run_that_is_taken_up", FromTheFirstStep, "a step is missing"),
    ("survives_an_interrupted_run", NeedsAStep, "TypeError"),
    ("changes_nothing", RemovesMetrics, "the metrics became"),
]


test_built_in, test_plain, test_faulty, test_each = contract_tests("observer", PlainObserver, FAULTY)
