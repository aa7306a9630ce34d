"""A study: the trials of a sweep, in a journal of Optuna that every process of the study's directory appends to.

All trials are in the journal from the beginning. A worker takes the first without a result whose lock nobody holds, so
there are exactly as many as planned, however many workers there are, and a trial whose worker died resumes in the same
run directory. Only the process that holds its lock changes the state of a trial.
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from crvnn_core.errors import FAILURES, CrvnnError, Origin
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec
from crvnn_core.spec.layers import read_toml
from crvnn_core.spec.resolve import resolve
from crvnn_experiments.ledger import appending
from crvnn_experiments.settings import Sweep, read_sweep
from crvnn_experiments.space import Params, combined, layer, suggest
from crvnn_experiments.worker import Clock, Job, QueueError, this_process, train

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

    from crvnn_core.spec.assembly import Assembly
    from crvnn_core.training.seeds import RunOutcomes

_NAME = "sweep"  # of the study in its journal, which has no other
INTERRUPTED = "interrupted"  # why a trial that was given back is begun again


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


class Journal:
    """A file of JSON lines for Optuna's journal storage; a line that a killed process cut short is skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = self._offset = 0  # lines read so far, and the bytes that they take

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with appending(self.path) as file:
            for log in logs:
                file.write(json.dumps(log, separators=(",", ":")).encode() + b"\n")

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        if log_number_from < self._count:
            self._count = self._offset = 0
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):  # it is being written
                    return
                self._offset += len(line)
                with contextlib.suppress(ValueError):
                    log: dict[str, Any] = json.loads(line)
                    self._count += 1
                    if self._count > log_number_from:
                        yield log


class Study:
    """The trials of a sweep, a queue of jobs for workers. The directory must be one of ``crvnn sweep``."""

    def __init__(self, path: Path, sweep: Sweep, catalog: Catalog) -> None:
        self.optuna = import_optuna()
        self.path, self.sweep, self.catalog = path, sweep, catalog
        pruners = self.optuna.pruners
        kinds = {
            "none": pruners.NopPruner,
            "median": pruners.MedianPruner,
            "halving": lambda: pruners.SuccessiveHalvingPruner(reduction_factor=3),
        }
        self.storage = self.optuna.storages.JournalStorage(Journal(path / "study.log"))
        self.study = self.optuna.create_study(
            study_name=_NAME,
            storage=self.storage,
            direction="maximize" if sweep.maximised else "minimize",
            pruner=kinds[sweep.pruner](),
            load_if_exists=True,
        )
        self.id = self.storage.get_study_id_from_name(_NAME)

    @property
    def name(self) -> str:
        """That of its directory."""
        return self.path.absolute().name

    @property
    def best(self) -> Path:
        """The file of the resolved spec of the best trial."""
        return self.path / "best.toml"

    def trials(self, *states: str) -> list[FrozenTrial]:
        """The trials in these states, or all."""
        kinds = tuple(self.optuna.trial.TrialState[state] for state in states) or None
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False, states=kinds)
        return found

    def plan(self, content: Mapping[str, Any], beside: Path) -> None:
        """Add the trials that are planned and not there yet. The directory must be locked.

        :param content: the spec and the sweep as plain tables; an error if the study was planned with others.
        :param beside: where relative paths among the searched settings start.
        """
        if "planned" in self.study.user_attrs:
            self._check_same(content)
        else:
            self.study.set_user_attr("content", json.dumps(content, sort_keys=True))
            self.study.set_user_attr("beside", str(beside.absolute()))
        points = list(combined(self.sweep.dimensions)) if self.sweep.sampler == "grid" else []
        for number in range(len(self.trials()), self.sweep.trials):
            params = points[number] if points else {}
            self.study.enqueue_trial(params, user_attrs={"directory": f"trials/{number + 1:04}"})
        if self.study.user_attrs.get("planned") != self.sweep.trials:
            self.study.set_user_attr("planned", self.sweep.trials)

    def _check_same(self, content: Mapping[str, Any]) -> None:
        from crvnn_core.runs.directory import flatten

        there = flatten(json.loads(self.study.user_attrs["content"]))
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
                f"the study in {self.path} has other settings:\n  {shown}\nChoose another --out."
            )

    def left(self) -> list[TrialJob]:
        """The trials without a result; other processes may hold them."""
        return [TrialJob(self, trial) for trial in self.trials("RUNNING", "WAITING")]

    def state(self, trial: FrozenTrial) -> str:
        """How a trial stands: as in Optuna, but ``lost`` if its process has died, ``waiting`` if it was interrupted."""
        name = trial.state.name.lower()
        if name == "running" and not TrialJob(self, trial).holder:
            return "lost" if trial.user_attrs.get("worker") else "waiting"
        return "failed" if name == "fail" else name

    def trial_spec(self, params: Params, label: str) -> RunSpec:
        """The spec of a trial."""
        beside = Path(self.study.user_attrs["beside"])
        settings = layer(self.sweep.dimensions, params)
        origin = Origin(label, directory=beside, every_stage=True)
        return resolve(self.catalog, [*read_toml(self.path / "base.toml"), (settings, {}, origin)])

    def sampler(self, number: int) -> BaseSampler:
        """A sampler for one trial, seeded by its number: no two workers sample the same."""
        seed = (self.sweep.seed * 1_000_003 + number) % 2**31
        samplers = self.optuna.samplers
        if self.sweep.sampler != "tpe":
            return samplers.RandomSampler(seed=seed)  # type: ignore[no-any-return]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
            return samplers.TPESampler(seed=seed, constant_liar=True)  # type: ignore[no-any-return]


def read_study(path: Path, catalog: Catalog) -> Sweep:
    """The sweep of a study's directory; an error if it is none."""
    if not (path / "sweep.toml").exists():
        missing = "it has no sweep.toml" if path.is_dir() else "there is no such directory"
        raise CrvnnError(f"{path} is not a study of 'crvnn sweep': {missing}")
    return read_sweep(catalog, read_toml(path / "sweep.toml"))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process plans the study of a directory at a time."""
    lock = FileLock(path / ".lock")
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise CrvnnError(f"{path} cannot be used: {error}") from error
    try:
        yield
    finally:
        lock.release()


class PrunedError(CrvnnError):
    """A trial that the pruner has ended."""


class TrialJob(Job):
    """A trial as a job of a worker."""

    trial: Trial
    params: Params
    clock: Clock
    #: Why it was begun again, each time.
    retries: list[str]

    def __init__(self, study: Study, frozen: FrozenTrial) -> None:
        self.study, self.number = study, frozen.number
        self.id = study.storage.get_trial_id_from_study_id_trial_number(study.id, frozen.number)
        self.directory = study.path / frozen.user_attrs["directory"]

    @property
    def name(self) -> str:
        return f"Trial {self.directory.name.lstrip('0')}"

    def begin(self) -> str:
        study = self.study
        trial = study.storage.get_trial(self.id)
        if trial.state.is_finished():  # by another worker, while this one was at another trial
            return ""
        self.retries = trial.user_attrs.get("retries", [])
        if died := trial.user_attrs.get("worker"):
            reason = f"its process ({died}) ended without a result"
            lost = sum(each != INTERRUPTED for each in self.retries)
            if lost >= study.sweep.retries:
                self._note(error=f"{reason}, after {lost} retries")
                study.study.tell(self.number, state=study.optuna.trial.TrialState.FAIL)
                return ""
            self._retry(reason)
        study.storage.set_trial_state_values(self.id, state=study.optuna.trial.TrialState.RUNNING)
        self._note(worker=this_process())
        study.study.sampler = study.sampler(self.number)
        self.trial = study.optuna.Trial(study.study, self.id)
        self.params = suggest(study.sweep.dimensions, self.trial)
        shown = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.name} of {study.sweep.trials}: {shown}"

    def do(self, clock: Clock) -> str:
        self.clock = clock
        try:
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
        self._retry(INTERRUPTED)
        self._note(worker="")

    def _retry(self, reason: str) -> None:
        self.retries = [*self.retries, reason]
        self._note(retries=self.retries)

    def _train(self, clock: Clock) -> RunOutcomes:
        study = self.study
        spec = study.trial_spec(self.params, self.name.lower())
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
        base = tomllib.loads((self.study.path / "base.toml").read_text(encoding="utf-8"))
        if path != self.directory and path.name != f"seed-{base['seed']}":
            return  # the first seed alone is reported
        report, metric = self.report, self.study.sweep.metric

        class Reports(Observer):
            def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
                report(step, metrics[metric])

        assembly.observers.append(Reports())

    def report(self, step: int, value: float) -> None:
        """Report a result after a step to the study, unless that was done before; ``PrunedError`` ends the trial."""
        known = self.study.storage.get_trial(self.id).intermediate_values
        if step in known or not math.isfinite(value):
            return
        try:
            self.trial.report(value, step)
            pruned = self.trial.should_prune()
        except FAILURES as error:
            raise QueueError(f"the study's journal cannot be used: {error}") from error
        if pruned:
            raise PrunedError(f"pruned at step {step}")

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
        self._note(results=results, values=values, seconds=round(3600 * self.clock.hours, 1))
        value = statistics.fmean(values)
        self.study.study.tell(self.trial, value)
        shown = f"{100 * value:.1f}%" if metric == "accuracy" else f"{value:.4f}"
        return f"{self.name}: {metric} {shown} on the split '{self.development}'"

    def _note(self, **facts: Any) -> None:
        for key, value in facts.items():
            self.study.storage.set_trial_user_attr(self.id, key, value)
