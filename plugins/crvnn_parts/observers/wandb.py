"""The observer ``wandb``: metrics, spec and results in Weights & Biases. Needs the extra ``wandb``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from crvnn_core import CrvnnError, Observer
from crvnn_core.annotations import check_ranges
from crvnn_parts.observers.tracking import RunId, imported, prefixed, result_metrics, run_name


class WandB(Observer):
    """Logs metrics of training and of the development split, with the spec as the run's configuration.

    A resumed run continues the same run of Weights & Biases; steps that it repeats are not logged twice. The final
    scores are in the run's summary, under ``test/accuracy`` for example.

    :param project: of Weights & Biases.
    :param entity: the user or team; empty for the default of the account.
    :param run: its name; empty for that of the run directory.
    :param group: runs of one group are shown together; empty for none.
    :param tags: of the run.
    :param mode: ``offline`` writes files to send later with ``wandb sync``; empty for the default, which the
        environment variable ``WANDB_MODE`` can change.
    """

    @check_ranges
    def __init__(
        self,
        project: str = "crvnn",
        entity: str = "",
        run: str = "",
        group: str = "",
        tags: list[str] = [],  # noqa: B006  (never mutated, and TOML has lists only)
        mode: Literal["", "online", "offline", "disabled"] = "",
    ) -> None:
        self.project, self.entity, self.name = project, entity, run
        self.group, self.tags, self.mode = group, list(tags), mode
        self._run: Any = None
        self._step = 0

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        wandb = imported("wandb", "wandb", "wandb")
        self._step = facts.get("step", 0)
        directory = facts.get("directory")
        known = RunId(directory, "wandb")
        config = {**facts.get("spec", {}), "parameters": facts.get("parameters")}
        try:
            self._run = wandb.init(
                project=self.project,
                entity=self.entity or None,
                name=self.name or run_name(directory) or None,
                group=self.group or None,
                tags=self.tags or None,
                mode=self.mode or None,
                dir=directory,
                config=config,
                id=known.read() or None,
                resume="allow",
            )
        except (
            Exception
        ) as error:  # no network, no account, a project that does not exist: all its own classes
            raise CrvnnError(
                f"Weights & Biases cannot be reached: {error}\n"
                "Log in with 'wandb login', or set WANDB_MODE=offline and send the run later with 'wandb sync'."
            ) from error
        known.write(self._run.id)

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._log(step, prefixed("train", metrics))

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self._log(step, prefixed("dev", metrics))

    def noted(self, message: str) -> None:
        self._log(self._step, {"note": message})

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._run is None:
            return
        run, self._run = self._run, None
        run.summary.update(result_metrics(facts.get("results", {})))
        run.finish(exit_code=0 if facts.get("finished", True) else 1)

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        self._step = step
        if self._run is not None and step >= self._run.step:  # not again what a killed run has logged
            self._run.log(dict(values), step=step)
