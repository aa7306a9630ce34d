"""Small training runs, and what to measure during them."""

import json

import pytest

from crvnn_core import Example, Observer
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training import checkpoint
from crvnn_core.training.trainer import train
from small import Letters, differences, metrics_of, same, variant


class Gauge(Observer):
    """Records a measurement after every step and every evaluation."""

    def __init__(self, measure):
        self.measure, self.steps, self.evaluations = measure, [], []

    def stepped(self, step, metrics):
        self.steps.append(self.measure())

    def evaluated(self, step, metrics):
        self.evaluations.append(self.measure())


def trained(*sets, out=None, **components):
    """A small variant, trained."""
    assembly = variant(*sets, **components)
    train(assembly, out, evaluate_splits=[])
    return assembly


def padded(batch):
    """Tokens and padding of a batch."""
    return sum(tokens.ids.numel() for tokens in batch.sequences)


class Even(Letters):
    """Has sequences of one length only."""

    def examples(self, split, seed):
        for example in super().examples(split, seed):
            (letters,) = example.sequences
            yield Example(((*letters, *"fffff")[:5],), example.label)


class Growing(Letters):
    """Gives new examples every epoch, and more each time."""

    def epoch(self, seed, number):
        return list(self.examples("train", seed + number))[: 8 * (number + 1)]


def assert_same_run(one, two):
    """Weights, checkpoints, results and metrics are the same, bit for bit."""
    one, two = RunDirectory(one), RunDirectory(two)
    assert differences(checkpoint.load(one.weights)["model"], checkpoint.load(two.weights)["model"]) == []
    last, other = checkpoint.load(one.last), checkpoint.load(two.last)
    assert differences(last["model"], other["model"]) == []
    assert same(last["optimizer"], other["optimizer"])
    assert same(last["position"], other["position"])
    assert json.loads(one.results.read_text()) == json.loads(two.results.read_text())
    assert metrics_of(one.path) == metrics_of(two.path)


class Killed(BaseException):
    """As sudden as a signal, but in this process."""


class Killing(Observer):
    """Ends everything after a step."""

    def __init__(self, step):
        self.step = step

    def stepped(self, step, metrics):
        if step == self.step:
            raise Killed


def stopped_after(step, out, *sets, **components):
    """A run that was killed right after a step, before anything more was saved."""
    assembly = variant(*sets, **components)
    assembly.observers.append(Killing(step))
    with pytest.raises(Killed):
        train(assembly, out)
