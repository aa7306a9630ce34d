"""The contract of observers: built-in observers satisfy it, and each check fails for an observer that violates it."""

import pytest

from contract_cases import built_in, component, failures, faulty, names_of_checks, run_check
from crvnn_core import Observer
from trackers import fake_mlflow, fake_wandb


@built_in("observer")
def test_built_in_observers_satisfy_their_contract(name, sets, check, by, monkeypatch):
    if name == "tensorboard":
        pytest.importorskip("tensorboard")
    fake_wandb(monkeypatch)
    fake_mlflow(monkeypatch)
    check(component("observer", name, sets))


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


def test_a_plain_observer_satisfies_the_contract():
    assert failures("observer", PlainObserver) == []


#: A check, an observer that fails it, and a part of the reason that is given.
FAULTY = [
    ("observer_is_an_observer", object, "subclass crvnn_core.Observer"),
    ("observer_survives_a_training_run", OnlyOnce, "started twice"),
    ("observer_survives_a_run_that_is_taken_up", FromTheFirstStep, "a step is missing"),
    ("observer_survives_an_interrupted_run", NeedsAStep, "TypeError"),
    ("observer_changes_nothing", RemovesMetrics, "the metrics became"),
]


@faulty(FAULTY)
def test_a_check_that_fails_says_why_an_observer_is_faulty(check, build, reason):
    outcome = run_check(check, build)
    assert not outcome.kept
    assert outcome.reason
    assert reason in outcome.reason


def test_every_check_of_observers_fails_for_a_faulty_observer():
    assert {check for check, _, _ in FAULTY} == names_of_checks("observer")
