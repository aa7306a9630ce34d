"""Stand-ins for the packages of experiment trackers, as strict as those where an observer could go wrong."""

import re
import sys
from types import ModuleType, SimpleNamespace

from attrs import Factory, define, frozen

from crvnn_core.runs.directory import flatten


@define
class WandbRun:
    """A run of Weights & Biases: ``history`` has the values of each step."""

    id: str
    settings: dict
    step: int = 0
    history: dict = Factory(dict)
    summary: dict = Factory(dict)
    ends: list = Factory(list)  # exit codes
    name = property(lambda self: self.settings["name"])
    params = property(
        lambda self: {key: str(value) for key, value in flatten(self.settings["config"]).items()}
    )
    results = property(lambda self: self.summary)

    def log(self, values, step):
        assert step >= self.step, (
            "Weights & Biases ignores a step that is less than the last one, with a warning"
        )
        self.step = step
        self.history.setdefault(step, {}).update(values)

    def finish(self, exit_code):
        self.ends.append(exit_code)

    def values(self, key):
        return {step: found[key] for step, found in self.history.items() if key in found}

    def steps(self, key):
        return list(self.values(key))


def fake_wandb(monkeypatch, error=None):
    """Puts a stand-in for wandb in place; gives its runs by id."""
    runs = {}

    def init(**settings):
        if error:
            raise RuntimeError(error)
        name = settings["id"] or f"run{len(runs)}"
        assert name not in runs or settings["resume"] == "allow", "this run exists"
        if name in runs:
            runs[name].step += 1  # as Weights & Biases counts when it resumes
        return runs.setdefault(name, WandbRun(name, settings))

    _install(monkeypatch, "wandb", init=init)
    return runs


@frozen
class Metric:
    key: str
    value: float
    timestamp: int
    step: int


@frozen
class Param:
    key: str
    value: str


class MlflowException(Exception):  # noqa: N818 (MLflow's name)
    pass


@define
class MlflowRun:
    """A run of MLflow."""

    run_id: str
    name: str
    experiment: str
    params: dict = Factory(dict)
    metrics: list = Factory(list)
    tags: dict = Factory(dict)
    ends: list = Factory(list)  # statuses
    results = property(lambda self: {metric.key: metric.value for metric in self.metrics})
    info = property(lambda self: self)

    def values(self, key):
        return {metric.step: metric.value for metric in self.metrics if metric.key == key}

    def steps(self, key):
        return [metric.step for metric in self.metrics if metric.key == key]


def fake_mlflow(monkeypatch, error=None):
    """Puts a stand-in for MLflow in place; gives its runs by id."""
    runs, experiments = {}, {}

    class MlflowClient:
        def __init__(self, tracking_uri=None):
            if error:
                raise MlflowException(error)

        def get_experiment_by_name(self, name):
            found = experiments.get(name)
            return SimpleNamespace(experiment_id=found) if found else None

        def create_experiment(self, name):
            return experiments.setdefault(name, f"experiment {name}")

        def create_run(self, experiment, run_name):
            run = MlflowRun(f"{len(runs):032x}", run_name, experiment)
            return runs.setdefault(run.run_id, run)

        def update_run(self, run, status):
            runs[run].ends.append(status)

        set_terminated = update_run

        def set_tag(self, run, key, value):
            runs[run].tags[key] = value

        def get_metric_history(self, run, key):
            return [metric for metric in runs[run].metrics if metric.key == key]

        def log_batch(self, run, metrics=(), params=()):
            assert len(metrics) <= 1000, "MLflow takes 1,000 metrics in a batch"
            assert len(params) <= 100, "MLflow takes 100 parameters in a batch"
            for item in (*metrics, *params):
                assert re.fullmatch(r"[\w\-./ ]+", item.key), f"MLflow refuses the name {item.key!r}"
            for param in params:
                if runs[run].params.setdefault(param.key, param.value) != param.value:
                    raise MlflowException(f"{param.key} cannot change")
            runs[run].metrics += metrics

    entities = _install(monkeypatch, "mlflow.entities", Metric=Metric, Param=Param)
    exceptions = _install(monkeypatch, "mlflow.exceptions", MlflowException=MlflowException)
    _install(monkeypatch, "mlflow", MlflowClient=MlflowClient, entities=entities, exceptions=exceptions)
    return runs


def _install(monkeypatch, name, **names):
    module = ModuleType(name)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)
    return module
