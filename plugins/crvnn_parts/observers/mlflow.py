"""The observer ``mlflow``: metrics, spec and results in MLflow. Needs the extra ``mlflow``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crvnn_core import CrvnnError, Observer
from crvnn_core.runs.directory import flatten
from crvnn_parts.observers.tracking import RunId, imported, prefixed, result_metrics, run_name

_BATCH = 100  # parameters in a request, and metrics of several steps
_LONGEST = 500  # characters of a parameter


class MLflow(Observer):
    """Logs metrics of training and of the development split, with the spec as the run's parameters.

    A resumed run continues the same run of MLflow; steps that it repeats are not logged twice. Metrics are sent in
    batches. The final scores have names such as ``test/accuracy``.

    :param experiment: of MLflow; it is created if there is none of this name.
    :param uri: of the tracking server, or a directory; empty for the default, which the environment variable
        ``MLFLOW_TRACKING_URI`` can change.
    :param run: its name; empty for that of the run directory.
    """

    def __init__(self, experiment: str = "crvnn", uri: str = "", run: str = "") -> None:
        self.experiment, self.uri, self.name = experiment, uri, run
        self._client: Any = None
        self._run = ""
        self._logged = self._step = 0
        self._waiting: list[Any] = []

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        mlflow = _mlflow()
        self._step, self._logged, self._waiting = facts.get("step", 0), 0, []
        directory = facts.get("directory")
        known = RunId(directory, "mlflow")
        try:
            client = mlflow.MlflowClient(tracking_uri=self.uri or None)
            self._run = known.read()
            if self._run:  # its parameters cannot change any more
                client.update_run(self._run, status="RUNNING")
                history = client.get_metric_history(self._run, "train/loss")
                self._logged = max((metric.step for metric in history), default=0)
            else:
                name = self.name or run_name(directory) or None
                self._run = client.create_run(self._experiment_id(client), run_name=name).info.run_id
                known.write(self._run)
                for part in _in_batches(_parameters(mlflow, facts)):
                    client.log_batch(self._run, params=part)
            client.set_tag(self._run, "crvnn.directory", directory or "")
        except mlflow.exceptions.MlflowException as error:
            raise CrvnnError(f"MLflow cannot be reached: {error}") from error
        self._client = client

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._log_new(step, prefixed("train", metrics))
        if len(self._waiting) >= _BATCH:
            self._send()

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self._log_new(step, prefixed("dev", metrics))
        self._send()

    def noted(self, message: str) -> None:
        if self._client is not None:
            self._client.set_tag(self._run, f"crvnn.note.{self._step}", message[:_LONGEST])

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._client is None:
            return
        self._log(facts.get("step", self._step), result_metrics(facts.get("results", {})))
        self._send()
        status = "FINISHED" if facts.get("finished", True) else "FAILED" if facts.get("error") else "KILLED"
        self._client.set_terminated(self._run, status=status)
        self._client = None

    def _experiment_id(self, client: Any) -> str:
        found = client.get_experiment_by_name(self.experiment)
        return str(found.experiment_id if found is not None else client.create_experiment(self.experiment))

    def _log_new(self, step: int, values: Mapping[str, float]) -> None:
        self._step = step
        if self._client is not None and step > self._logged:  # not again what a killed run has logged
            self._log(step, values)

    def _log(self, step: int, values: Mapping[str, float]) -> None:
        now = round(1000 * time.time())
        metric = _mlflow().entities.Metric
        self._waiting += [metric(_key(name), float(value), now, step) for name, value in values.items()]

    def _send(self) -> None:
        if self._client is not None and self._waiting:
            self._client.log_batch(self._run, metrics=self._waiting)
            self._waiting = []


def _parameters(mlflow: Any, facts: Mapping[str, Any]) -> list[Any]:
    """The spec with dotted keys, and the number of the model's parameters."""
    values = {**flatten(facts.get("spec", {})), "parameters": facts.get("parameters")}
    return [mlflow.entities.Param(_key(key), str(value)[:_LONGEST]) for key, value in values.items()]


def _key(name: str) -> str:
    """A name of characters that MLflow takes: ``test/1001+/loss`` has one that it does not."""
    return re.sub(r"[^\w\-./ ]", "_", name)


def _in_batches(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(items), _BATCH):
        yield items[first : first + _BATCH]


def _mlflow() -> Any:
    return imported("mlflow", "mlflow", "mlflow", "mlflow.entities", "mlflow.exceptions")
