"""An explorer of small runs, served, and requests to it."""

import threading

import pytest
import torch

import small
from crvnn_core import Decision, Halting
from crvnn_core.training.trainer import train
from crvnn_explorer.models import Explorer
from exploring import asking, serving
from small import Averaging


class Broken(Decision):
    """Fails when it is used.

    :param warmth: may change after training.
    :param noise: matters in training alone.
    """

    live_settings = ("warmth",)

    def __init__(self, warmth: float = 1.0, noise: float = 0.0) -> None:
        super().__init__()

    def forward(self, scores, near, eligible, exists):
        raise RuntimeError("this is a bug")


class Gated(Halting):
    """Takes every step, but none while the gate is closed.

    :param leave: end the process instead, as far as a plug-in can.
    """

    gate = threading.Event()

    def __init__(self, leave: bool = False) -> None:
        super().__init__()
        self.leave = leave

    def forward(self, exists, vectors, step):
        if self.leave:
            raise SystemExit(0)
        assert Gated.gate.wait(60)
        return torch.ones(len(exists), dtype=torch.bool)


@pytest.fixture
def gate():
    """The gate of the halting ``mine``, closed."""
    Gated.gate.clear()
    yield Gated.gate
    Gated.gate.set()


@pytest.fixture(scope="session")
def flat_run(tmp_path_factory):
    """A run whose encoder has neither steps nor a tree."""
    path = tmp_path_factory.mktemp("flat") / "run"
    train(small.variant("training.steps=2", encoder=Averaging), path)
    return path


@pytest.fixture(scope="session")
def explorer(letters_run, pairs_run, flat_run):
    catalog = small.catalog_with(encoder=Averaging, decision=Broken, halting=Gated)
    return Explorer.load([str(letters_run), str(pairs_run), str(flat_run)], catalog)


@pytest.fixture(scope="module")
def port(explorer):
    with serving(explorer) as port:
        yield port


@pytest.fixture
def ask(port):
    return asking(port)


@pytest.fixture
def letters(letters_run):
    return str(letters_run)
