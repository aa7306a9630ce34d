"""Threads on busy cores: noticed, told, and not used unless asked for."""

import pytest
import torch

from crvnn_core.training import devices as threads
from crvnn_core.training.devices import launched
from small import variant


def training(threads):
    """The settings of training with a number of threads; 0 leaves it to torch."""
    return variant(f"training.threads={threads}").spec.training


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def busy(monkeypatch):
    """With two threads an operation takes thirty times as long as with one."""
    monkeypatch.setattr(threads, "_duration", lambda: {1: 1e-4, 2: 3e-3}[torch.get_num_threads()])


@pytest.mark.usefixtures("two_threads", "busy")
def test_on_busy_cores_one_thread_is_used_and_told(capsys):
    launched(training(0))
    assert torch.get_num_threads() == 1
    assert "with 2 threads an operation takes 30 times as long as with one, so one is used" in (
        capsys.readouterr().err
    )


@pytest.mark.usefixtures("two_threads", "busy")
@pytest.mark.parametrize("how", ["spec", "resumed"])
def test_a_number_that_was_asked_for_or_that_a_run_began_with_is_kept(how, capsys):
    if how == "spec":
        launched(training(2))
    else:
        launched(training(0), threads=2)
    assert torch.get_num_threads() == 2
    assert capsys.readouterr().err == ""
    assert "with 2 threads an operation takes 30 times as long" in threads.remark_on_busy_cores()


@pytest.mark.usefixtures("two_threads")
def test_on_idle_cores_all_threads_are_used(monkeypatch):
    monkeypatch.setattr(threads, "_duration", lambda: 1e-4)
    launched(training(0))
    assert torch.get_num_threads() == 2


def test_one_thread_needs_no_measurement(monkeypatch):
    monkeypatch.setattr(threads, "_duration", None)
    assert threads.remark_on_busy_cores() == ""
