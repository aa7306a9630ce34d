"""A study: the trials of a sweep in Optuna's database, which processes and machines share, and its directory.

All trials are in the database from the beginning, waiting. A worker begins the first that waits, which the database
allows one worker only, so there are exactly as many as planned, however many workers there are. A trial whose worker
died ends as failed, and Optuna adds a copy of it that waits in its place and resumes in the same run directory.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import tomli_w
from attrs import frozen
from filelock import FileLock

from crvnn_core.errors import FAILURES, CrvnnError, Origin
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, write_spec
from crvnn_core.spec.layers import read_toml
from crvnn_core.spec.resolve import resolve
from crvnn_experiments.settings import Sweep, read_sweep
from crvnn_experiments.space import Params, combined, layer, suggest
from crvnn_experiments.worker import Clock, Job, QueueError, this_process, train

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

    from crvnn_core.spec.assembly import Assembly
    from crvnn_core.training.seeds import RunOutcomes

_INTERVAL = 15  # seconds between heartbeats, in a database that machines may share
_GRACE = 120  # seconds without one after which a worker counts as dead


def import_optuna() -> Any:
    """Optuna, without the messages that it prints; an error with the command to install it."""
    try:
        import optuna
    except ImportError as error:
        raise CrvnnError(
            f"crvnn sweep needs a package that is not installed ({error}): pip install 'crvnn[sweep]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@frozen
class StudyFacts:
    """Where a study is, as its directory keeps it."""

    #: The study's name in the database.
    study: str
    #: The address of the database, without a password; empty for SQLite in the directory.
    storage: str
    #: Where relative paths among the searched settings start.
    beside: str


@frozen
class StudyFiles:
    """The directory of a study."""

    path: Path

    @property
    def base(self) -> Path:
        """The resolved spec that the settings of a trial are laid over."""
        return self.path / "base.toml"

    @property
    def sweep(self) -> Path:
        """The table ``[sweep]``, complete."""
        return self.path / "sweep.toml"

    @property
    def study(self) -> Path:
        """Which study of which database this is."""
        return self.path / "study.json"

    @property
    def best(self) -> Path:
        """The resolved spec of the best trial."""
        return self.path / "best.toml"

    def create(self, base: RunSpec, sweep: Sweep, known: StudyFacts) -> None:
        """Write what is needed to resume the study."""
        write_spec(base, self.base, ["the spec that each trial of this sweep changes"])
        write_atomically(self.sweep, tomli_w.dumps({"sweep": sweep.plain()}))
        write_atomically(self.study, json.dumps(attrs.asdict(known), indent=1) + "\n")

    def read(self, catalog: Catalog) -> tuple[Sweep, StudyFacts]:
        """The sweep, and where its study is."""
        if not self.study.exists():
            missing = "it has no study.json" if self.path.is_dir() else "there is no such directory"
            raise CrvnnError(f"{self.path} is not a study of 'crvnn sweep': {missing}")
        try:
            known = StudyFacts(**json.loads(self.study.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CrvnnError(f"{self.study} is damaged: {error}") from None
        return read_sweep(catalog, read_toml(self.sweep)), known

    def trial_spec(self, catalog: Catalog, params: Params, label: str) -> RunSpec:
        """The spec of a trial."""
        sweep, known = self.read(catalog)
        origin = Origin(label, directory=Path(known.beside), every_stage=True)
        return resolve(catalog, [*read_toml(self.base), (layer(sweep.dimensions, params), {}, origin)])

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process of this directory at a time."""
        lock = FileLock(self.path / ".lock")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except OSError as error:
            raise CrvnnError(f"{self.path} cannot be used: {error}") from error
        try:
            yield
        finally:
            lock.release()


class Study:
    """The trials of a sweep, a queue of jobs for workers. Open it with ``open_study``.

    :param shared: whether processes elsewhere may use the database, whose locks cannot be seen here.
    """

    def __init__(
        self, files: StudyFiles, sweep: Sweep, catalog: Catalog, storage: RDBStorage, name: str, shared: bool
    ) -> None:
        self.optuna = import_optuna()
        self.files, self.sweep, self.catalog = files, sweep, catalog
        self.storage, self.name, self.shared = storage, name, shared
        self.id = storage.get_study_id_from_name(name)
        self.study = self.optuna.load_study(study_name=name, storage=storage, pruner=self._pruner())

    def trials(self, *states: str) -> list[FrozenTrial]:
        """The trials in these states, or all; those that were begun again, too."""
        kinds = tuple(self.optuna.trial.TrialState[state] for state in states) or None
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False, states=kinds)
        return found

    def add_waiting(self) -> None:
        """Add the trials that are planned and not there yet."""
        there = len({trial.user_attrs["directory"] for trial in self.trials()})
        points = list(combined(self.sweep.dimensions)) if self.sweep.sampler == "grid" else []
        for number in range(there, self.sweep.trials):
            params = points[number] if points else {}
            self.study.enqueue_trial(params, user_attrs={"directory": f"trials/{number + 1:04}"})
        self.study.set_user_attr("planned", self.sweep.trials)

    def left(self) -> list[TrialJob]:
        """The trials that wait, after those whose worker has died wait again."""
        if self.shared:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                self.optuna.storages.fail_stale_trials(self.study)
        else:
            for trial in self.lost():
                self._begin_again(trial)
        return [TrialJob(self, trial) for trial in self.trials("WAITING")]

    def lost(self) -> list[FrozenTrial]:
        """Trials that are running according to the database of this directory, but whose lock no process holds."""
        return [] if self.shared else [t for t in self.trials("RUNNING") if not TrialJob(self, t).holder]

    def _begin_again(self, trial: FrozenTrial) -> None:
        """End a trial whose worker has died, and let a copy of it wait, if it was not lost too often."""
        job, running = TrialJob(self, trial), self.optuna.trial.TrialState.RUNNING
        if (lock := job.hold()) is None:  # another process does this
            return
        try:
            if self.storage.get_trial(job.id).state == running:
                retry = self.storage.get_heartbeat_stale_trial_callback()
                copied = (
                    trial.number in each.system_attrs.get("retry_history", ()) for each in self.trials()
                )
                if retry and not any(copied):  # if one was, another process was killed before the next line
                    retry(self.study, trial)
                self.study.tell(trial.number, state=self.optuna.trial.TrialState.FAIL)
        finally:
            lock.release()

    def sampler(self, number: int) -> BaseSampler:
        """A sampler for one trial, seeded by its number: no two workers sample the same."""
        seed = (self.sweep.seed * 1_000_003 + number) % 2**31
        samplers = self.optuna.samplers
        if self.sweep.sampler != "tpe":
            return samplers.RandomSampler(seed=seed)  # type: ignore[no-any-return]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
            return samplers.TPESampler(seed=seed, constant_liar=True)  # type: ignore[no-any-return]

    def _pruner(self) -> BasePruner:
        pruners = self.optuna.pruners
        kinds = {
            "none": pruners.NopPruner,
            "median": pruners.MedianPruner,
            "halving": lambda: pruners.SuccessiveHalvingPruner(reduction_factor=3),
        }
        return kinds[self.sweep.pruner]()  # type: ignore[no-any-return]


class PrunedError(CrvnnError):
    """A trial that the pruner has ended."""


class TrialJob(Job):
    """A trial as a job of a worker."""

    trial: Trial
    params: Params
    clock: Clock

    def __init__(self, study: Study, frozen: FrozenTrial) -> None:
        self.study, self.number, self.known = study, frozen.number, frozen.user_attrs
        self.id = study.storage.get_trial_id_from_study_id_trial_number(study.id, frozen.number)
        self.directory = study.files.path / frozen.user_attrs["directory"]

    @property
    def name(self) -> str:
        return f"Trial {self.directory.name.lstrip('0')}"

    def begin(self) -> str:
        study = self.study
        state = study.optuna.trial.TrialState.RUNNING
        try:
            study.storage.set_trial_user_attr(self.id, "worker", this_process())
            if study.shared:  # first: whether a trial that runs is lost can always be told
                study.storage.record_heartbeat(self.id)
            if not study.storage.set_trial_state_values(self.id, state=state):
                return ""  # another worker was quicker
        except study.optuna.exceptions.UpdateFinishedTrialError:
            return ""
        study.study.sampler = study.sampler(self.number)
        self.trial = study.optuna.Trial(study.study, self.id)
        self.params = suggest(study.sweep.dimensions, self.trial)
        shown = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.name} of {study.sweep.trials}: {shown}"

    def do(self, clock: Clock) -> str:
        self.clock = clock
        try:
            with self._heartbeat():
                outcomes = self._train(clock)
        except PrunedError as error:
            self._end("PRUNED", str(error))
            return f"{self.name}: {error}"
        return self._record(outcomes)

    def fail(self, message: str) -> None:
        self._end("FAIL", message[:2000])

    def _end(self, state: str, message: str) -> None:
        self._note(error=message, seconds=round(3600 * self.clock.hours, 1))
        self.study.study.tell(self.trial, state=self.study.optuna.trial.TrialState[state])

    def give_back(self) -> None:
        self._note(interruptions=self.known.get("interruptions", 0) + 1)
        self.study.storage.set_trial_state_values(self.id, state=self.study.optuna.trial.TrialState.WAITING)

    @contextlib.contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """Within this context a shared database knows that the trial's worker is alive."""
        if not self.study.shared:
            yield
            return
        storage, done = self.study.storage, threading.Event()

        def beat() -> None:
            while True:
                with contextlib.suppress(Exception):  # the database cannot be reached: the next time perhaps
                    storage.record_heartbeat(self.id)
                if done.wait(_INTERVAL):
                    storage.remove_session()
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _train(self, clock: Clock) -> RunOutcomes:
        study = self.study
        spec = study.files.trial_spec(study.catalog, self.params, self.name.lower())
        if spec.training.devices > 1:
            raise CrvnnError(
                "a trial trains on one device; set training.devices = 1 and start a worker for each device"
            )
        seeds = study.sweep.seeds if study.sweep.seeds > 1 else None
        return train(self, spec, clock, study.catalog, seeds=seeds, starting=self._starting)

    def _starting(self, path: Path, assembly: Assembly) -> None:
        from crvnn_core import Observer

        self.development = assembly.task.development
        if self.development not in assembly.task.splits:
            raise CrvnnError(f"the task has no split '{self.development}', by which a sweep compares trials")
        base = tomllib.loads(self.study.files.base.read_text(encoding="utf-8"))
        if path != self.directory and path.name != f"seed-{base['seed']}":
            return  # the first seed alone is reported
        metric, frozen = self.study.sweep.metric, self.study.storage.get_trial(self.id)
        report = reporting(self.trial, metric, frozen.intermediate_values)

        class Reports(Observer):
            def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
                report(step, metrics)

        assembly.observers.append(Reports())

    def _record(self, outcomes: RunOutcomes) -> str:
        metric, runs = self.study.sweep.metric, outcomes.outcomes.values()
        values = [getattr(run.results[self.development].total, metric) for run in runs]
        if not all(map(math.isfinite, values)):
            raise CrvnnError(f"the {metric} on the development split is {values}")
        results: dict[str, dict[str, float]] = {}
        for run in runs:
            for split, result in run.results.items():
                for name, each in result.total.metrics().items():
                    means = results.setdefault(split, {})
                    means[name] = means.get(name, 0.0) + each / len(runs)
        self._note(results=results, values=values, steps=[run.step for run in runs])
        self._note(seconds=round(3600 * self.clock.hours, 1))
        value = statistics.fmean(values)
        self.study.study.tell(self.trial, value)
        shown = f"{100 * value:.1f}%" if metric == "accuracy" else f"{value:.4f}"
        return f"{self.name}: {metric} {shown} on the split '{self.development}'"

    def _note(self, **facts: Any) -> None:
        for key, value in facts.items():
            self.study.storage.set_trial_user_attr(self.id, key, value)


def reporting(
    trial: Trial, metric: str, reported: Iterable[int]
) -> Callable[[int, Mapping[str, float]], None]:
    """A function that reports a result after a step to the study, and raises ``PrunedError`` if its pruner gives up.

    :param reported: the steps that were reported before the trial was interrupted.
    """
    known = set(reported)

    def report(step: int, metrics: Mapping[str, float]) -> None:
        value = metrics[metric]
        if step in known or not math.isfinite(value):
            return
        try:
            trial.report(value, step)
            pruned = trial.should_prune()
        except FAILURES as error:
            raise QueueError(f"the study's database cannot be used: {error}") from error
        if pruned:
            raise PrunedError(f"pruned at step {step}")

    return report


def open_study(
    files: StudyFiles, sweep: Sweep, catalog: Catalog, content: Mapping[str, Any], url: str, name: str
) -> Study:
    """Join the study of this name, or create it with all its trials waiting. The directory must be locked.

    :param content: the spec and the sweep as plain tables; an error if the study in the database has others.
    :param url: of the database; empty for SQLite in the study's directory.
    """
    optuna = import_optuna()
    storage = _storage(optuna, url or f"sqlite:///{files.path.absolute() / 'study.db'}", sweep, bool(url))
    direction = "maximize" if sweep.maximised else "minimize"
    created = True
    try:
        optuna.create_study(study_name=name, storage=storage, direction=direction)
    except optuna.exceptions.DuplicatedStudyError:
        created = False
    study = Study(files, sweep, catalog, storage, name, bool(url))
    # Here the directory is locked, so a process that has not finished creating the study is dead.
    if created or (not url and "planned" not in study.study.user_attrs):
        study.study.set_user_attr("content", json.dumps(content, sort_keys=True))
        study.add_waiting()
        return study
    _await_trials(study)
    _check_same(study, content)
    if sweep.trials > study.study.user_attrs["planned"]:
        study.add_waiting()
    return study


def _storage(optuna: Any, url: str, sweep: Sweep, shared: bool, attempts: int = 5) -> RDBStorage:
    """The database; what prevents its use is one message."""
    # SQLite: wait for another process to finish writing.
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    for attempt in range(attempts):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                retry = optuna.storages.RetryHeartbeatStaleTrialCallback(
                    max_retry=sweep.retries, inherit_intermediate_values=True
                )
                storage: RDBStorage = optuna.storages.RDBStorage(
                    url,
                    engine_kwargs=options,
                    heartbeat_interval=_INTERVAL if shared else None,
                    grace_period=_GRACE if shared else None,
                    heartbeat_stale_trial_callback=retry,
                )
            return storage
        except ImportError as error:
            raise CrvnnError(
                f"the database of --storage needs a driver that is not installed: {error}\n"
                "The address can name the one that is, as in postgresql+psycopg2://me@server/studies "
                "(pip install psycopg2-binary)."
            ) from error
        except Exception as error:
            # Two workers that create the tables at the same time: one of them has to try again.
            if attempt == attempts - 1 or not _is_race(error):
                raise CrvnnError(f"the database of --storage cannot be used: {error}") from error
            time.sleep(0.5 * (attempt + 1))
    raise AssertionError


def _is_race(error: Exception) -> bool:
    text = str(error).lower()
    return any(words in text for words in ("already exists", "duplicate", "unique", "locked"))


def _await_trials(study: Study, seconds: float = 60.0) -> None:
    """Wait until the process that creates the study has added its trials."""
    end = time.monotonic() + seconds
    while "planned" not in study.study.user_attrs:
        if time.monotonic() > end:
            raise CrvnnError(
                f"the process that was creating the study '{study.name}' has ended before it was done; "
                "delete the study, or choose another --out or --study"
            )
        time.sleep(0.2)


def _check_same(study: Study, content: Mapping[str, Any]) -> None:
    from crvnn_core.runs.spec_file import flatten

    there = flatten(json.loads(study.study.user_attrs["content"]))
    here = flatten(json.loads(json.dumps(content)))
    changed = [
        f"{key} = {there.get(key)!r} there, {here.get(key)!r} here"
        for key in dict.fromkeys([*there, *here])
        if there.get(key) != here.get(key) and key != "sweep.trials"
    ]
    if changed:
        more = [f"and {len(changed) - 6} more"] if len(changed) > 6 else []
        shown = "\n  ".join([*changed[:6], *more])
        raise CrvnnError(
            f"the study '{study.name}' in {study.files.path} has other settings:\n  {shown}\n"
            "Choose another --out (and --study, in a shared database)."
        )
