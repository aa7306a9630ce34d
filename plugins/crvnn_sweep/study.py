"""A study: the trials of a sweep in a database that several processes and machines share, and its directory.

All trials are in the database from the beginning, waiting; a worker takes the first that waits, which the database
allows one worker only. So there are exactly as many as planned, however many workers there are. A trial whose worker
died ends as failed, and a copy of it waits in its place, which goes on in the same run directory.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from crvnn_core.errors import CrvnnError
from crvnn_core.runs.locks import is_running, started
from crvnn_sweep.files import StudyFiles
from crvnn_sweep.settings import Sweep
from crvnn_sweep.space import combined

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

_INTERVAL = 15.0  # seconds between heartbeats
_GRACE = 120.0  # seconds without one after which a worker on another machine counts as dead


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


class Study:
    """The trials of a sweep. Open it with ``open_study``."""

    def __init__(self, files: StudyFiles, sweep: Sweep, storage: RDBStorage, name: str) -> None:
        self.optuna = import_optuna()
        self.files, self.sweep, self.storage, self.name = files, sweep, storage, name
        self.id = storage.get_study_id_from_name(name)
        self.study = self.optuna.load_study(study_name=name, storage=storage, pruner=self._pruner())

    def trials(self) -> list[FrozenTrial]:
        """All trials, also those that were begun again."""
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False)
        return found

    def add_waiting(self) -> None:
        """Add the trials that are planned and not there yet."""
        there = sum(1 for trial in self.trials() if "continues" not in trial.user_attrs)
        points = list(combined(self.sweep.dimensions)) if self.sweep.sampler == "grid" else []
        for number in range(there, self.sweep.trials):
            params = points[number] if points else {}
            self.study.enqueue_trial(params, user_attrs={"directory": f"trials/{number + 1:04}"})
        self.study.set_user_attr("planned", self.sweep.trials)

    def take(self) -> Trial | None:
        """Begin the first trial that waits; ``None`` if there is none. Trials of dead workers wait again first."""
        state = self.optuna.trial.TrialState
        for lost in self.lost():
            process = lost.user_attrs.get("worker", "unknown")
            self.give_back(lost, f"its process ({process}) ended without a result", lost=True)
        with self.files.lock():  # SQLite has no row locks
            for waiting in self.study.get_trials(deepcopy=False, states=(state.WAITING,)):
                number = self.trial_id(waiting.number)
                with suppress(self.optuna.exceptions.UpdateFinishedTrialError):
                    self._sign(number)  # first: of a trial that runs it can always be told whether it is lost
                    if self.storage.set_trial_state_values(number, state=state.RUNNING):
                        self.study.sampler = self._sampler(waiting.number)
                        return self.optuna.Trial(self.study, number)  # type: ignore[no-any-return]
        return None

    def lost(self) -> list[FrozenTrial]:
        """Trials that are running according to the database, but whose worker is dead."""
        running = self.study.get_trials(deepcopy=False, states=(self.optuna.trial.TrialState.RUNNING,))
        return [trial for trial in running if not _is_alive(trial)]

    def give_back(self, trial: FrozenTrial | Trial, why: str, *, lost: bool = False) -> None:
        """End a trial that has no result, and let a copy of it wait; not if it was ``lost`` too often."""
        optuna, number = self.optuna, self.trial_id(trial.number)
        with (
            self.files.lock(),
            suppress(optuna.exceptions.UpdateFinishedTrialError),
        ):  # if another was quicker
            frozen = self.storage.get_trial(number)
            losses = frozen.user_attrs.get("losses", 0) + lost
            often = losses > self.sweep.retries
            note = {"error": f"{why}, for the {losses}. time"} if often else {"continued": why}
            for key, value in note.items():
                self.storage.set_trial_user_attr(number, key, value)
            copied = any(each.user_attrs.get("continues") == trial.number for each in self.trials())
            if (
                not often and not copied
            ):  # if it was, this process's predecessor was killed before the next line
                self.study.add_trial(_copy(optuna, frozen, losses))
            self.storage.set_trial_state_values(number, state=optuna.trial.TrialState.FAIL)

    def trial_id(self, number: int) -> int:
        """The database's id of a trial."""
        return self.storage.get_trial_id_from_study_id_trial_number(self.id, number)

    def _sign(self, number: int) -> None:
        """Write down that this process works on a trial, and when that was so."""
        process = os.getpid()
        worker = {"worker": f"{socket.gethostname()}:{process}", "started": started(process)}
        for key, value in (worker | {"heartbeat": time.time()}).items():
            self.storage.set_trial_user_attr(number, key, value)

    @contextmanager
    def heartbeat(self, trial: Trial) -> Iterator[None]:
        """Within this context the database knows that the trial's worker is alive."""
        number, done = self.trial_id(trial.number), threading.Event()

        def beat() -> None:
            while True:
                with suppress(Exception):  # the database cannot be reached: the next time perhaps
                    self._sign(number)
                if done.wait(_INTERVAL):
                    self.storage.remove_session()
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _sampler(self, number: int) -> BaseSampler:
        """A sampler for one trial, seeded by its number: no two workers sample the same."""
        import warnings

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


def _copy(optuna: Any, trial: FrozenTrial, losses: int) -> FrozenTrial:
    """A trial with the same settings and intermediate values, which waits."""
    kept = {"directory": trial.user_attrs["directory"], "losses": losses, "continues": trial.number}
    copied: FrozenTrial = optuna.trial.create_trial(
        state=optuna.trial.TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=kept,
        system_attrs={"fixed_params": trial.system_attrs.get("fixed_params", {})},
        intermediate_values=trial.intermediate_values,
    )
    return copied


def _is_alive(trial: FrozenTrial) -> bool:
    host, _, process = str(trial.user_attrs.get("worker", "")).rpartition(":")
    if host == socket.gethostname():
        known = trial.user_attrs.get("started")
        if not is_running(int(process)) or (known and known != started(int(process))):
            return False
        if known:  # it is the very process, whatever a clock that has jumped makes of its heartbeat
            return True
    began = trial.datetime_start.timestamp() if trial.datetime_start else time.time()
    return time.time() - float(trial.user_attrs.get("heartbeat", began)) < _GRACE


def open_study(files: StudyFiles, sweep: Sweep, content: Mapping[str, Any], url: str, name: str) -> Study:
    """Join the study of this name, or create it with all its trials waiting. The directory must be locked.

    :param content: the spec and the sweep as plain tables; an error if the study in the database has others.
    """
    optuna = import_optuna()
    storage = _storage(optuna, url)
    direction = "maximize" if sweep.maximised else "minimize"
    created = True
    try:
        optuna.create_study(study_name=name, storage=storage, direction=direction)
    except optuna.exceptions.DuplicatedStudyError:
        created = False
    study = Study(files, sweep, storage, name)
    # SQLite: its directory is locked, so a process that has not finished creating the study is dead.
    if created or (url.startswith("sqlite") and "planned" not in study.study.user_attrs):
        study.study.set_user_attr("content", json.dumps(content, sort_keys=True))
        study.add_waiting()
        return study
    _await_trials(study)
    _check_same(study, content)
    if sweep.trials > study.study.user_attrs["planned"]:
        study.add_waiting()
    return study


def _storage(optuna: Any, url: str, attempts: int = 5) -> RDBStorage:
    """The database; what prevents its use is one message."""
    # SQLite: wait for another process to finish writing.
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    for attempt in range(attempts):
        try:
            storage: RDBStorage = optuna.storages.RDBStorage(url, engine_kwargs=options)
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
    ignored = ("sweep.trials",)
    changed = [
        f"{key} = {there.get(key)!r} there, {here.get(key)!r} here"
        for key in dict.fromkeys([*there, *here])
        if there.get(key) != here.get(key) and key not in ignored
    ]
    if changed:
        shown = "\n  ".join(_some(changed))
        raise CrvnnError(
            f"the study '{study.name}' in {study.files.path} has other settings:\n  {shown}\n"
            "Choose another --out (and --study, in a shared database)."
        )


def _some(lines: Sequence[str], most: int = 6) -> list[str]:
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]
