"""The contract of observers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crvnn_core.host.component import Component
from crvnn_core.interfaces import Observer
from crvnn_core.testing.common import build

_METRICS = {
    "loss": 1.5,
    "accuracy": 0.25,
    "depth": 3.0,
    "tokens_per_second": 900.0,
    "seconds": 0.5,
    "learning_rate": 0.001,
}
_LOOK = {"loss": 1.4, "accuracy": 0.3, "depth": 3.0}


_SCORE = {"examples": 20, "accuracy": 0.3, "loss": 1.4, "depth": 3.0}
_RESULTS = {"test": {"total": _SCORE, "buckets": {"1-10": _SCORE}}}


def _facts(step: int = 0) -> dict[str, Any]:
    spec = {"seed": 1, "task": {"name": "listops"}, "model": {"width": 8}, "training": {"observers": []}}
    components = {"task": "listops", "encoder": "crvnn"}
    facts = {"parameters": 10, "step": step, "stage": 1, "directory": None}
    return {**facts, "spec": spec, "seed": 1, "components": components}


def _end(step: int, results: Mapping[str, Any], error: str = "") -> dict[str, Any]:
    facts = {"step": step, "best_step": step, "stopped": "", "error": error}
    return {**facts, "finished": bool(results), "results": results}


def _run(observer: Observer, steps: Iterable[int], last: int, step: int = 0) -> None:
    """Every event of a training run."""
    observer.started(last, _facts(step))
    observer.noted("it begins")
    for number in steps:
        observer.stepped(number, dict(_METRICS))
    observer.evaluating("dev", 0, 20)
    observer.evaluating("dev", 20, 20)
    observer.evaluated(last, dict(_LOOK))
    observer.stage_started(last + 1, {"stage": 2})
    observer.stepped(last + 1, dict(_METRICS))
    observer.noted("it ends")
    observer.finished(_end(last + 1, _RESULTS))


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
            _run(observer, (1, 2, 3), last=3)


def check_observer_survives_a_run_that_is_taken_up(component: Component) -> None:
    """It can begin in the middle of a run: two steps after the third."""
    with _elsewhere():
        _run(build(component), (4, 5), last=5, step=3)


def check_observer_survives_an_interrupted_run(component: Component) -> None:
    """It can be told that a run has ended before its first step."""
    with _elsewhere():
        observer = build(component)
        observer.started(3, _facts())
        observer.finished(_end(0, {}, "KeyboardInterrupt"))


def check_observer_changes_nothing(component: Component) -> None:
    """It leaves the metrics as they are."""
    with _elsewhere():
        observer = build(component)
        metrics, look = dict(_METRICS), dict(_LOOK)
        observer.started(1, _facts())
        observer.stepped(1, metrics)
        observer.evaluated(1, look)
        observer.finished(_end(1, _RESULTS))
        assert (metrics, look) == (_METRICS, _LOOK), f"the metrics became {metrics} and {look}"
