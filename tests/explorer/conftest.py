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
    """Takes every step, but none while the gate is closed; counts its steps.

    :param leave: end the process instead, as far as a plug-in can.
    """

    gate = threading.Event()
    steps = 0

    def __init__(self, leave: bool = False) -> None:
        super().__init__()
        self.leave = leave

    def forward(self, exists, vectors, step):
        Gated.steps += 1
        if self.leave:
            raise SystemExit(0)
        assert Gated.gate.wait(60)
        return torch.ones(len(exists), dtype=torch.bool)


@pytest.fixture
def gated():
    """The halting ``mine``, whose gate is closed."""
    Gated.steps = 0
    Gated.gate.clear()
    yield Gated
    Gated.gate.set()


@pytest.fixture(scope="session")
def explorer(letters_run, pairs_run, tmp_path_factory):
    flat = tmp_path_factory.mktemp("flat") / "run"
    train(small.variant("training.steps=2", encoder=Averaging), flat)
    catalog = small.catalog_with(encoder=Averaging, decision=Broken, halting=Gated)
    return Explorer.load([str(letters_run), str(pairs_run), str(flat)], catalog)


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
