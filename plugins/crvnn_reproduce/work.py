"""Doing what a plan still lacks: takes one run after another that no other process has, trains, tests, records."""

from __future__ import annotations

import contextlib
import signal
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from crvnn_core.errors import FAILURES
from crvnn_core.runs.directory import RunDirectory
from crvnn_reproduce.ledger import Entry
from crvnn_reproduce.plan import Job, Plan
from crvnn_reproduce.records import Clock, device_of, new_entry, scores

#: Is called with a line for the user.
Tell = Callable[[str], None]
_PAUSE = 2.0  # seconds between looks at runs of other processes


class Worker:
    """Works on a plan, beside any number of others.

    :param wait: for runs that other processes are at; one whose process dies is taken over.
    """

    def __init__(self, plan: Plan, tell: Tell, wait: bool = True) -> None:
        self.plan, self.tell, self.wait = plan, tell, wait
        self.began = time.time()
        self.failed: set[str] = set()
        self.waiting = ""

    def work(self) -> bool:
        """Work until nothing is left to do; false if it was interrupted."""
        with _terminating_as_interrupting():
            try:
                while busy := self._pass():
                    if not self.wait:
                        break
                    self._tell_waiting(busy)
                    time.sleep(_PAUSE)
            except KeyboardInterrupt:
                return False
        return True

    @property
    def left(self) -> list[Job]:
        """The jobs that are neither done nor failed."""
        return [job for job in self.plan.jobs if job.key() not in self.failed and not self.plan.is_done(job)]

    def _pass(self) -> list[Job]:
        """Try every job that is left, once; those that other processes are at."""
        busy = []
        for job in self.left:
            if self.plan.is_done(job):  # by another process, while this one was at another job
                continue
            job.directory.parent.mkdir(parents=True, exist_ok=True)
            lock = job.lock
            if not lock.acquire():
                busy.append(job)
                continue
            clock = Clock(job.directory.with_name(f"{job.directory.name}-time.json"))
            try:
                with lock.held(clock.save):
                    if not self.plan.is_done(job) and not self._has_failed_elsewhere(job):
                        self._do(job, clock)
            except KeyboardInterrupt:
                if not lock.lost:
                    raise
                self.tell(f"{job.name}: another process has taken over, since this one was suspended.")
            finally:
                clock.save()
        return busy

    def _do(self, job: Job, clock: Clock) -> None:
        done = len(self.plan.jobs) - len(self.left)
        self.tell(f"Run {done + 1} of {len(self.plan.jobs)}: {job.name}{self._time_left()}")
        try:
            if job.experiment.measure == "minutes":
                from crvnn_reproduce.speed import measure_speed

                self.plan.ledger.append(measure_speed(self.plan, job, clock))
            else:
                self._train(job, clock)
        except KeyboardInterrupt:
            raise
        except FAILURES as error:
            self.failed.add(job.key())
            with contextlib.suppress(OSError):
                job.error.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            self.tell(f"{job.name}: {error or type(error).__name__}")
        else:
            job.error.unlink(missing_ok=True)

    def _train(self, job: Job, clock: Clock) -> None:
        from crvnn_core.spec import write_spec
        from crvnn_core.training.seeds import resume_training, train_seeds

        run = RunDirectory(job.directory)
        spec = job.made.spec(job.seed, self.plan.data)
        if job.key() not in self.plan.ledger.entries:
            group = RunDirectory(job.directory.parent)
            if not group.seeds.exists():  # so that crvnn report, compare and eval know a directory of seeds
                write_spec(job.made.spec(0, self.plan.data), group.seeds, ["trained by crvnn reproduce"])
            if run.spec.exists():
                outcomes = resume_training(job.directory, catalog=self.plan.catalog)
            else:
                outcomes = train_seeds(spec, job.directory, catalog=self.plan.catalog)
            if not outcomes.finished:
                raise KeyboardInterrupt
            outcome = outcomes.outcomes[job.directory]
            facts = {"steps": outcome.step, "best_step": outcome.best_step}
            self.plan.ledger.append([new_entry(job, spec, clock, **scores(outcome.results), **facts)])
        for test in job.tests:
            if job.key(test) not in self.plan.ledger.entries:
                self.plan.ledger.append([self._test(job, test)])

    def _test(self, job: Job, test: Mapping[str, Any]) -> Entry:
        """The entry of a test of a trained model on other data."""
        from crvnn_core.inference.trained import load

        clock = Clock(job.directory / "no such file")
        sets = [f"task.{key}={_toml(value)}" for key, value in test.items()]
        spec = job.made.spec(job.seed, self.plan.data)
        trained = load(str(job.directory), self.plan.catalog, sets).to(device_of(spec))
        split = trained.task.splits[-1]
        found = trained.evaluate(trained.examples(split))
        return new_entry(job, spec, clock, **scores({split: found}), test=dict(test))

    def _has_failed_elsewhere(self, job: Job) -> bool:
        """Whether another process has tried in vain since this one began; it would be in vain here, too."""
        with contextlib.suppress(OSError):
            if job.error.stat().st_mtime > self.began:
                self.failed.add(job.key())
                return True
        return False

    def _time_left(self) -> str:
        """How long the rest will take if runs take as long as those of the same row, or else of the same experiment."""
        entries = [entry for entry in self.plan.ledger.entries.values() if not entry.test]
        hours = 0.0
        for job in self.left:
            alike = [e for e in entries if (e.experiment, e.budget) == (job.experiment.name, job.budget)]
            same = [entry.hours for entry in alike if entry.fingerprint == job.made.fingerprint]
            if not alike:
                return ""
            hours += statistics.fmean(same or [entry.hours for entry in alike])
        minutes = round(60 * hours)
        return (
            f" (about {minutes // 60} h {minutes % 60} min left)"
            if minutes >= 60
            else f" (about {minutes} min left)"
        )

    def _tell_waiting(self, busy: list[Job]) -> None:
        names = "; ".join(f"{job.name} ({owner})" for job in busy if (owner := job.lock.owner))
        if names and names != self.waiting:
            self.waiting = names
            self.tell(f"Waiting for other processes: {names}")


def _toml(value: Any) -> str:
    import tomli_w

    return tomli_w.dumps({"value": value}).partition("=")[2].strip()


@contextlib.contextmanager
def _terminating_as_interrupting() -> Iterator[None]:
    """Within this context SIGTERM raises KeyboardInterrupt, as SIGINT does."""
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
