"""A worker: takes one trial of a study after another, trains it, and records its result, its error, or its loss."""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crvnn_core.errors import FAILURES, CrvnnError
from crvnn_core.host.catalog import Catalog
from crvnn_core.interfaces import Observer
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training.seeds import RunOutcomes, resume_training, train_seeds
from crvnn_sweep.space import suggest
from crvnn_sweep.study import Study

if TYPE_CHECKING:
    from optuna import Trial

    from crvnn_core.spec import RunSpec

#: Is called with a line for the user.
Tell = Callable[[str], None]


class PrunedError(CrvnnError):
    """A trial that the pruner has ended."""


class StudyError(CrvnnError):
    """The database of a study cannot be used."""


class DevelopmentReports(Observer):
    """Reports results on the development split to the study, and ends a trial that its pruner gives up."""

    def __init__(self, trial: Trial, metric: str, reported: Iterable[int]) -> None:
        self.trial, self.metric, self.reported = trial, metric, set(reported)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        value = metrics[self.metric]
        if step in self.reported or not math.isfinite(value):
            return
        try:
            self.trial.report(value, step)
            pruned = self.trial.should_prune()
        except FAILURES as error:
            raise StudyError(f"the study's database cannot be used: {error}") from error
        if pruned:
            raise PrunedError(f"pruned at step {step}")


def work(study: Study, catalog: Catalog, tell: Tell) -> bool:
    """Train trials until none waits; false if it was interrupted."""
    with _terminating_as_interrupting():
        try:
            while (trial := study.take()) is not None:
                if not _Run(study, catalog, trial, tell).finish():
                    return False
        except KeyboardInterrupt:  # between two trials
            return False
    return True


class _Run:
    """One trial."""

    def __init__(self, study: Study, catalog: Catalog, trial: Trial, tell: Tell) -> None:
        self.study, self.catalog, self.trial, self.tell = study, catalog, trial, tell
        self.directory = study.files.path / trial.user_attrs["directory"]
        self.label = trial.user_attrs["directory"].rpartition("/")[2].lstrip("0")
        self.began = time.monotonic()

    def finish(self) -> bool:
        """Train it and record how it ended; false if it was interrupted, and then it waits again."""
        states = self.study.optuna.trial.TrialState
        try:
            with self.study.heartbeat(self.trial):
                outcomes = self._train()
        except KeyboardInterrupt:
            self.study.give_back(self.trial, "interrupted")
            return False
        except StudyError:
            raise
        except PrunedError as error:
            self._end(f"{error}", states.PRUNED)
        except FAILURES as error:
            self._keep_traceback(error)
            self._fail(str(error) or type(error).__name__)
        else:
            if not outcomes.finished:
                self.study.give_back(self.trial, "interrupted")
                return False
            self._record(outcomes)
        return True

    def _train(self) -> RunOutcomes:
        params = suggest(self.study.sweep.dimensions, self.trial)
        shown = ", ".join(f"{name}={value}" for name, value in params.items())
        self.tell(f"Trial {self.label} of {self.study.sweep.trials}: {shown}")
        spec = self.study.files.trial_spec(self.catalog, self.study.sweep, params, f"trial {self.label}")
        _check_one_device(spec)
        run = RunDirectory(self.directory)
        if run.spec.exists() or run.seeds.exists():
            return resume_training(self.directory, catalog=self.catalog, starting=self._starting)
        seeds = self.study.sweep.seeds if self.study.sweep.seeds > 1 else None
        return train_seeds(spec, self.directory, seeds=seeds, catalog=self.catalog, starting=self._starting)

    def _starting(self, path: Path, assembly: Assembly, resumed: bool) -> None:
        self.development = assembly.task.development
        if self.development not in assembly.task.splits:
            raise CrvnnError(f"the task has no split '{self.development}', by which a sweep compares trials")
        if path == self.directory or path.name == f"seed-{self._first_seed()}":
            known = self.study.storage.get_trial(self.study.trial_id(self.trial.number)).intermediate_values
            assembly.observers.append(DevelopmentReports(self.trial, self.study.sweep.metric, known))

    def _first_seed(self) -> int:
        return int(self.study.files.tables()["seed"])

    def _record(self, outcomes: RunOutcomes) -> None:
        metric = self.study.sweep.metric
        values = [getattr(o.results[self.development].total, metric) for o in outcomes.outcomes.values()]
        if not all(map(math.isfinite, values)):
            self._fail(f"the {metric} on the development split is {values}")
            return
        value = statistics.fmean(values)
        results: dict[str, dict[str, float]] = {}
        for outcome in outcomes.outcomes.values():
            for split, result in outcome.results.items():
                for name, each in result.total.metrics().items():
                    results.setdefault(split, {}).setdefault(name, 0.0)
                    results[split][name] += each / len(outcomes.outcomes)
        self._note(results=results, values=values, steps=[o.step for o in outcomes.outcomes.values()])
        self._note(seconds=round(time.monotonic() - self.began, 1))
        self.study.study.tell(self.trial, value)
        shown = f"{100 * value:.1f}%" if metric == "accuracy" else f"{value:.4f}"
        self.tell(f"Trial {self.label}: {metric} {shown} on the split '{self.development}'")

    def _fail(self, message: str) -> None:
        self._end(message, self.study.optuna.trial.TrialState.FAIL)

    def _end(self, message: str, state: Any) -> None:
        self._note(error=message[:2000], seconds=round(time.monotonic() - self.began, 1))
        self.study.study.tell(self.trial, state=state)
        self.tell(f"Trial {self.label}: {message}")

    def _note(self, **facts: Any) -> None:
        for key, value in facts.items():
            self.trial.set_user_attr(key, value)

    def _keep_traceback(self, error: BaseException) -> None:
        with contextlib.suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            text = "".join(traceback.format_exception(error))
            (self.directory / "error.txt").write_text(text, encoding="utf-8")


def _check_one_device(spec: RunSpec) -> None:
    if spec.training.devices > 1:
        raise CrvnnError(
            "a trial trains on one device; set training.devices = 1 and start a worker for each device"
        )


@contextlib.contextmanager
def _terminating_as_interrupting() -> Iterator[None]:
    """Within this context SIGTERM raises KeyboardInterrupt, as SIGINT does, so that the trial is given back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
