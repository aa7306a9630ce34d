"""A worker: does one job after another that no other process holds, and records how each ended.

A job is a run, or several that differ in their seed. What the jobs are is the business of a queue: the plan of a table
(``plan.py``) or the trials of a study (``study.py``). A process holds a job by a lock file beside its run directory,
which the system releases when the process ends, however it ends; the next one resumes from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from filelock import FileLock, Timeout

from crvnn_core.errors import FAILURES, CrvnnError
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import PartSpec, RunSpec

if TYPE_CHECKING:
    from crvnn_core.spec.assembly import Assembly
    from crvnn_core.training.seeds import RunOutcomes

#: Is called with a line for the user.
Tell = Callable[[str], None]
_PAUSE = 2.0  # seconds between looks at jobs of other processes
_SAVING = 10.0  # seconds between two savings of the time that a job has taken


class QueueError(CrvnnError):
    """What says which jobs there are cannot be used, so no other job can be done either."""


class Job(ABC):
    """What one process does at a time. Beside its directory stand the lock, the time taken and the last error."""

    #: Of the run, or of the runs from several seeds.
    directory: Path

    @property
    @abstractmethod
    def name(self) -> str:
        """For messages."""

    @abstractmethod
    def begin(self) -> str:
        """Called by the process that holds it: a line for the user, or nothing if the job is done already."""

    @abstractmethod
    def do(self, clock: Clock) -> str:
        """Train and record; a line for the user, or nothing."""

    def fail(self, message: str) -> None:  # noqa: B027
        """Record that ``do`` has failed, if that has to be known to other processes."""

    def give_back(self) -> None:  # noqa: B027
        """Called when ``do`` was interrupted, before the job is let go."""

    @property
    def lock(self) -> Path:
        """The lock file."""
        return self.directory.with_name(f".{self.directory.name}.lock")

    @property
    def error(self) -> Path:
        """Where the error is kept that ended the last attempt."""
        return self.directory.with_name(f"{self.directory.name}-error.txt")

    @property
    def time(self) -> Path:
        """Where the time is kept that it has taken."""
        return self.directory.with_name(f"{self.directory.name}-time.json")

    def hold(self) -> FileLock | None:
        """Its lock, to be released; ``None`` if another process holds it."""
        try:
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.lock)
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except OSError as error:
            raise CrvnnError(f"{self.directory.parent} cannot be used: {error}") from error
        return lock

    @property
    def holder(self) -> str:
        """``host:process`` of the process that holds it; empty if none does."""
        if not self.lock.exists():
            return ""
        if (lock := self.hold()) is not None:
            lock.release()
            return ""
        return Clock(self.time).process or "another process"


class Queue(Protocol):
    """Says which jobs there are."""

    def left(self) -> Iterable[Job]:
        """The jobs that are to be done, in their order; other processes may hold them."""


class Clock:
    """The time that a job has taken so far, and the process that is at it, in a file that survives a kill.

    :param path: of the file; without one the time is not kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.before: dict[str, Any] = {"seconds": 0.0, "cpu": 0.0, "process": ""}
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                self.before |= json.loads(path.read_text(encoding="utf-8"))
        self.began, self.began_cpu = time.monotonic(), time.process_time()
        self.saved = self.began

    @property
    def process(self) -> str:
        """``host:process`` that was the last to save it."""
        return str(self.before["process"])

    @property
    def hours(self) -> float:
        """Wall-clock hours."""
        return float(self.before["seconds"] + time.monotonic() - self.began) / 3600

    @property
    def cpu_hours(self) -> float:
        """Hours of processor time."""
        return float(self.before["cpu"] + time.process_time() - self.began_cpu) / 3600

    def save(self) -> None:
        """Write the time so far."""
        if self.path is None:
            return
        self.saved = time.monotonic()
        known = {"seconds": 3600 * self.hours, "cpu": 3600 * self.cpu_hours, "process": this_process()}
        with contextlib.suppress(CrvnnError):  # better no time than no result
            write_atomically(self.path, json.dumps(known) + "\n")


class Worker:
    """Does the jobs of a queue, beside any number of others.

    :param wait: until other processes have done what they hold; the job of one that dies is taken over.
    """

    def __init__(self, queue: Queue, tell: Tell, wait: bool = False) -> None:
        self.queue, self.tell, self.wait = queue, tell, wait
        self.began = time.time()
        #: The directories of jobs that have failed.
        self.failed: set[Path] = set()
        self.waiting = ""

    def work(self) -> bool:
        """Work until nothing is left to do; false if it was interrupted."""
        try:
            while True:
                done, busy = self._pass()
                if done:  # look again, since others may have given jobs back
                    continue
                if not busy or not self.wait:
                    return True
                self._tell_waiting(busy)
                time.sleep(_PAUSE)
        except KeyboardInterrupt:
            return False

    def _pass(self) -> tuple[int, list[Job]]:
        """Try every job once; how many were done, and those that other processes hold."""
        done, busy = 0, []
        for job in self.queue.left():
            if job.directory in self.failed:
                continue
            lock = job.hold()
            if lock is None:
                busy.append(job)
                continue
            try:
                if not self._has_failed_elsewhere(job) and (line := job.begin()):
                    self._do(job, line)
                    done += 1
            finally:
                lock.release()
        return done, busy

    def _do(self, job: Job, line: str) -> None:
        self.tell(line)
        clock = Clock(job.time)
        clock.save()
        try:
            told = job.do(clock)
        except KeyboardInterrupt:
            job.give_back()
            raise
        except QueueError:
            raise
        except FAILURES as error:
            message = str(error) or type(error).__name__
            with contextlib.suppress(OSError):
                job.error.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
            self.failed.add(job.directory)
            job.fail(message)
            self.tell(f"{job.name}: {message}")
        else:
            job.error.unlink(missing_ok=True)
            if told:
                self.tell(told)
        finally:
            clock.save()

    def _has_failed_elsewhere(self, job: Job) -> bool:
        """Whether another process has tried in vain since this one began; it would be in vain here, too."""
        with contextlib.suppress(OSError):
            if job.error.stat().st_mtime > self.began:
                self.failed.add(job.directory)
                return True
        return False

    def _tell_waiting(self, busy: Iterable[Job]) -> None:
        names = "; ".join(f"{job.name} ({holder})" for job in busy if (holder := job.holder))
        if names and names != self.waiting:
            self.waiting = names
            self.tell(f"Waiting for other processes: {names}")


def this_process() -> str:
    """``host:process``."""
    return f"{socket.gethostname()}:{os.getpid()}"


def train(
    job: Job,
    spec: RunSpec,
    clock: Clock,
    catalog: Catalog,
    *,
    seeds: int | None = None,
    starting: Callable[[Path, Assembly], None] = lambda path, assembly: None,
) -> RunOutcomes:
    """Train a spec in the directory of a job, or resume what is there; KeyboardInterrupt if that was interrupted.

    :param seeds: how many, from the spec's seed upwards; ``None`` for one, in the directory itself.
    :param starting: is called before each run.
    """
    from crvnn_core import Observer
    from crvnn_core.runs.directory import RunDirectory
    from crvnn_core.training.resume import resume_training
    from crvnn_core.training.seeds import train_seeds

    class Saving(Observer):
        """Saves the time, now and then."""

        def stepped(self, step: int, metrics: object) -> None:
            if time.monotonic() - clock.saved > _SAVING:
                clock.save()

    def prepare(path: Path, assembly: Assembly, resumed: bool) -> None:
        assembly.observers.append(Saving())
        starting(path, assembly)

    run = RunDirectory(job.directory)
    if run.spec.exists() or run.seeds.exists():
        outcomes = resume_training(job.directory, catalog=catalog, starting=prepare)
    else:
        outcomes = train_seeds(spec, job.directory, seeds=seeds, catalog=catalog, starting=prepare)
    if not outcomes.finished:
        raise KeyboardInterrupt
    return outcomes


def with_few_lines(spec: RunSpec) -> RunSpec:
    """The observer ``progress`` prints one line of a run at its end, and others only if it takes long."""

    def quieter(part: PartSpec) -> PartSpec:
        is_progress = part.name == "progress" and "lines" in part.params
        return attrs.evolve(part, params={**part.params, "lines": 1}) if is_progress else part

    observers = tuple(map(quieter, spec.training.observers))
    stages = tuple(
        attrs.evolve(stage, training=attrs.evolve(stage.training, observers=observers))
        for stage in spec.stages
    )
    return attrs.evolve(spec, training=attrs.evolve(spec.training, observers=observers), stages=stages)
