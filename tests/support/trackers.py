"""Stand-ins for the packages of experiment trackers, as strict as those where an observer could go wrong."""

import re
import sys
import types

from attrs import define, field, frozen


@define
class WandbRun:
    """A run of Weights & Biases: ``history`` has the values of each step."""

    id: str
    settings: dict
    step: int = 0
    history: dict = field(factory=dict)
    summary: dict = field(factory=dict)
    exit_codes: list = field(factory=list)

    def log(self, values, step):
        assert step >= self.step, (
            "Weights & Biases ignores a step that is less than the last one, with a warning"
        )
        self.step = step
        self.history.setdefault(step, {}).update(values)

    def finish(self, exit_code):
        self.exit_codes.append(exit_code)

    @property
    def ends(self):
        return self.exit_codes

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

    module = types.ModuleType("wandb")
    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
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
    """A run of MLflow, which is its own ``info`` too."""

    run_id: str
    name: str
    experiment: str
    params: dict = field(factory=dict)
    metrics: list = field(factory=list)
    tags: dict = field(factory=dict)
    statuses: list = field(factory=list)

    @property
    def info(self):
        return self

    @property
    def ends(self):
        return self.statuses

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
            return types.SimpleNamespace(experiment_id=found) if found else None

        def create_experiment(self, name):
            experiments[name] = f"experiment {name}"
            return experiments[name]

        def create_run(self, experiment, run_name):
            run = MlflowRun(f"{len(runs):032x}", run_name, experiment)
            return runs.setdefault(run.run_id, run)

        def update_run(self, run, status):
            runs[run].statuses.append(status)

        def set_terminated(self, run, status):
            runs[run].statuses.append(status)

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

    module = types.ModuleType("mlflow")
    module.MlflowClient = MlflowClient
    module.entities = types.ModuleType("mlflow.entities")
    module.entities.Metric, module.entities.Param = Metric, Param
    module.exceptions = types.ModuleType("mlflow.exceptions")
    module.exceptions.MlflowException = MlflowException
    for each in (module, module.entities, module.exceptions):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    return runs
