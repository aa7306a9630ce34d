"""The contract of observers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from crvnn_core.component import Component
from crvnn_core.interfaces import Observer
from crvnn_core.testing.common import build

_METRICS = {"loss": 1.5, "accuracy": 0.25, "depth": 3.0}


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """A directory to leave files in, and nothing on the screen."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory, open(os.devnull, "w") as nowhere:
        os.chdir(directory)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                yield
        finally:
            os.chdir(before)


def check_observer_is_an_observer(component: Component) -> None:
    """It is a crvnn_core.Observer, so it has every event."""
    with _elsewhere():
        assert isinstance(build(component), Observer), "subclass crvnn_core.Observer"


def check_observer_survives_a_training_run(component: Component) -> None:
    """It takes every event of a run, and of a second run after it."""
    with _elsewhere():
        observer = build(component)
        for _ in range(2):
            observer.started(3, {"parameters": 10})
            for step in (1, 2, 3):
                observer.stepped(step, dict(_METRICS))
            observer.finished({})


def check_observer_survives_an_interrupted_run(component: Component) -> None:
    """It can be told that a run has ended before its first step."""
    with _elsewhere():
        observer = build(component)
        observer.started(3, {})
        observer.finished({})


def check_observer_changes_nothing(component: Component) -> None:
    """It leaves the metrics as they are."""
    with _elsewhere():
        observer = build(component)
        metrics = dict(_METRICS)
        observer.started(1, {})
        observer.stepped(1, metrics)
        observer.finished({})
        assert metrics == _METRICS, f"the metrics became {metrics}"


OBSERVER_CHECKS = (
    check_observer_is_an_observer,
    check_observer_survives_a_training_run,
    check_observer_survives_an_interrupted_run,
    check_observer_changes_nothing,
)
