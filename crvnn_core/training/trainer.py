"""The training loop: the same for one device and many; it can be stopped at any step and resumed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attrs import asdict
from torch import Tensor

from crvnn_core.errors import CrvnnError, PluginError
from crvnn_core.host.faults import refusing_exit
from crvnn_core.interfaces import Example, set_progress
from crvnn_core.model.model import Model
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.runs.results import Result
from crvnn_core.signals import Interruption
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training.data import (
    check_splits,
    data_notes,
    development_split,
    epoch_batches,
    evenly_spaced,
    free_memory,
    split_examples,
)
from crvnn_core.training.evaluation import evaluate
from crvnn_core.training.observers import JsonLines, ObserverDispatch, starting_facts
from crvnn_core.training.processes.devices import (
    Fabric,
    launched,
    noticing_lost_processes,
    products_note,
    read_by_first,
    rounded_products,
    summed,
)
from crvnn_core.training.progress import Position
from crvnn_core.training.run import (
    Outcome,
    begin_with,
    create_run,
    fitted_weights,
    last_state,
    load_weights,
    save_checkpoint,
    saved_weights,
    write_results,
)
from crvnn_core.training.stages import announcement, carry_optimizer_state
from crvnn_core.training.step import Stepper


def train(
    assembly: Assembly,
    out: Path | None = None,
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    evaluate_splits: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Outcome:
    """Train what a spec describes: until the last stage ends, at its last step or early, or until an interruption.

    :param out: the run directory; nothing is written without one.
    :param resume: continue the run in that directory from its last checkpoint.
    :param fabric: already launched (``devices.launched``); by default one is launched from the spec.
    :param evaluate_splits: splits on which the best weights are evaluated at the end; by default all but the first,
        which is for training.
    :param notes: for the observers, when training starts.
    """
    fabric = fabric or launched(assembly.spec.training)
    run = RunDirectory(out) if out is not None else None
    precision = assembly.spec.training.precision
    with (
        noticing_lost_processes(fabric, out),
        refusing_exit(assembly.catalog),
        contextlib.ExitStack() as stack,
    ):
        if run is not None and fabric.is_global_zero:
            stack.enter_context(run.lock(create=not resume))
            if not resume:
                create_run(run, assembly)
        state = read_by_first(fabric, lambda: last_state(run, assembly)) if resume else {}
        if not state and assembly.spec.training.start:
            begin_with(assembly.each_stage[0].model, Path(assembly.spec.training.start))
        stack.enter_context(rounded_products(precision))
        fabric.barrier()
        trainer = Trainer(assembly, fabric, run, state)
        splits = list(assembly.task.splits[1:] if evaluate_splits is None else evaluate_splits)
        check_splits(trainer.stages, splits)
        try:
            trainer.begin([*notes, *products_note(fabric, precision)])
            with trainer.interruption.deferred() if run else contextlib.nullcontext():
                while not (stopped := trainer.reason_to_stop()) or trainer.next_stage():
                    if not stopped:
                        metrics = trainer.stepper.update(trainer.batch())
                        if metrics is not None:
                            trainer.advance(metrics)
                        else:
                            free_memory()
            finished = not trainer.interruption.requested
            results = trainer.evaluate_best(splits) if finished else {}
        except BaseException as error:
            with contextlib.suppress(CrvnnError):  # the first error is the one to raise
                trainer.end(finished=False, error=str(error) or type(error).__name__)
            raise
        return trainer.end(results, stopped, finished)


class Trainer:
    """One run: the model and optimizer of its current stage, and how far training has come.

    :param state: of a checkpoint, to continue from; empty for a new run.
    """

    def __init__(
        self, assembly: Assembly, fabric: Fabric, run: RunDirectory | None, state: Mapping[str, Any]
    ) -> None:
        self.assembly, self.fabric, self.directory = assembly, fabric, run
        self.stages = assembly.each_stage
        observers = [*assembly.observers, *([JsonLines(str(run.metrics))] if run else [])]
        self.observers = ObserverDispatch(observers if fabric.is_global_zero else [])
        self.interruption = Interruption()
        if state:
            self._restore(state)
        else:
            self._enter_stage(Position(tokens=self.stages[0].spec.training.tokens))

    def _enter_stage(self, position: Position, weights: Mapping[str, Tensor] | None = None) -> None:
        """Set up the stage of ``position``: its model, with the weights of the stage before, and its optimizer."""
        self.position, self.stage = position, self.stages[position.stage]
        self.spec, self.task = self.stage.spec.training, self.stage.task
        self.model: Model = self.stage.model
        wrapped_model = self.fabric.setup_module(self.model)
        if weights is not None:
            self.model.load_state_dict(fitted_weights(weights, self.model))
        # Once the weights are on their device: some optimizers copy them.
        self.optimizer = self.stage.optimizer()
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.stepper = Stepper(
            fabric=self.fabric,
            model=self.model,
            wrapped_model=wrapped_model,
            wrapped_optimizer=self.fabric.setup_optimizers(self.optimizer),
            objective=self.stage.objective(),
            position=position,
            seed=self.assembly.spec.seed,
            clip=self.spec.clip,
            directory=self.directory,
            note=self._note,
        )
        self._epoch: list[list[Example]] = []
        self._dev: list[Example] | None = None
        self._best: dict[str, Tensor] = {}  # the best weights, where no directory keeps them

    def begin(self, notes: Sequence[str]) -> None:
        """Read the data of the epoch, and tell the observers that training starts."""
        self._prepare_data()
        where = self.directory.path if self.directory else None
        self.observers.start(self.position.total, starting_facts(self.assembly, self.position, where))
        new = bool(self.assembly.stages) and self.position.step == 0
        self._announce(*notes, *([announcement(self.assembly.spec, 0)] if new else []))

    def end(
        self,
        results: Mapping[str, Result] | None = None,
        stopped: str = "",
        finished: bool = True,
        error: str = "",
    ) -> Outcome:
        """Tell the observers how training has ended."""
        early = stopped if self.position.step < self.position.total else ""
        outcome = Outcome(self.position.step, self.position.best_step, results or {}, early, finished)
        self.observers.finish({**outcome.plain(), "error": error})
        return outcome

    def reason_to_stop(self) -> str:
        """Why the stage ends here; empty if it goes on. An interruption saves a checkpoint."""
        if self.fabric.world_size > 1:  # all processes must take the same number of steps
            requests = torch.tensor(float(self.interruption.requested), device=self.fabric.device)
            self.interruption.requested = bool(summed(self.fabric, requests) > 0)
        if self.interruption.requested:
            self._save(best=False)
            return f"interrupted after step {self.position.step}"
        return self.position.reason_to_stop(self.spec)

    def next_stage(self) -> bool:
        """Begin the next stage from the last weights; false if there is none, or training was interrupted."""
        if self.interruption.requested or self.stage is self.stages[-1]:
            return False
        before, optimizer = self.stage, self.optimizer
        following = self.stages[self.position.stage + 1].spec.training
        self._enter_stage(self.position.next_stage(following), before.model.state_dict())
        kept = carry_optimizer_state(before, optimizer, self.stage, self.optimizer)
        self._prepare_data()
        self._save(best=False)
        self.observers.send("stage_started", self.position.total, {"stage": self.position.stage + 1})
        self._announce(announcement(self.assembly.spec, self.position.stage, kept))
        return True

    def batch(self) -> list[Example]:
        """The examples of the next step, for which schedules and learning rates are set."""
        set_progress(self.model, (self.position.stage_step + 1) / self.position.stage_total)
        factor = self.position.learning_rate_factor(self.spec)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        return self._epoch[self.position.batch]

    def advance(self, metrics: dict[str, float]) -> None:
        """Count a step, and do what is due after it: tell the observers, evaluate, save, begin the next epoch."""
        position = self.position
        position.advance(len(self._epoch))
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        self.observers.send("stepped", position.step, metrics)
        if position.needs_evaluation(self.spec):
            self._evaluate_development()
        elif self.spec.save_every and position.step % self.spec.save_every == 0:
            self._save(best=False)
        if position.batch == 0 and position.step < position.total:
            self._load_epoch()

    def evaluate_best(self, splits: Sequence[str]) -> dict[str, Result]:
        """Evaluate the best weights on splits that were not trained on."""
        run = self.directory
        weights = read_by_first(
            self.fabric, lambda: self._best if run is None else saved_weights(run.weights)
        )
        if weights:
            load_weights(self.model, weights, run.weights if run else Path("memory"))
        results: dict[str, Result] = {}
        for name in splits:
            results[name] = self._evaluate(name, list(split_examples(self.task, name, 0)))
            if run is not None and self.fabric.is_global_zero:
                facts = {"seed": self.assembly.spec.seed, "step": self.position.best_step}
                write_results(run, results, development_split(self.task), facts)
        return results

    def _announce(self, *notes: str) -> None:
        for note in (*notes, *data_notes(self.task, self._epoch, self.spec.batch)):
            self._note(note)

    def _note(self, message: str) -> None:
        self.observers.send("noted", message)

    def _prepare_data(self) -> None:
        self._load_epoch()
        self.position.set_total(self.spec, len(self._epoch))
        self.model.train()

    def _load_epoch(self) -> None:
        self._epoch = epoch_batches(
            self.task, self.spec.batch, self.assembly.spec.seed, self.position.epoch, self.spec.order
        )
        if not self._epoch:
            raise CrvnnError("there are no training examples")

    def _evaluate_development(self) -> None:
        position, split = self.position, development_split(self.task)
        if not split:
            position.best_step = position.step
            self._save(best=True)
            return
        if self._dev is None:
            self._dev = evenly_spaced(list(split_examples(self.task, split, 0)), self.spec.evaluate_rows)
        score = self._evaluate(split, self._dev).total
        better = position.record(score, self.spec)
        if better and self.directory is None:
            self._best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        metrics = score.metrics()
        if self.spec.evaluate_trees:
            from crvnn_core.training.structure import structure

            metrics |= structure(self.model, self.task, evenly_spaced(self._dev, self.spec.evaluate_trees))
        self.observers.send("evaluated", position.step, metrics)
        if position.halve_on_plateau(self.spec):
            self._note(f"no better in {self.spec.halve_after} evaluations: the learning rate is halved")
        self._save(best=better)

    def _evaluate(self, split: str, examples: Sequence[Example]) -> Result:
        share = (self.fabric.global_rank, self.fabric.world_size)
        with self.fabric.autocast():
            return evaluate(
                self.model,
                self.task,
                examples,
                tokens=self.position.tokens,
                share=share,
                gather=partial(summed, self.fabric) if self.fabric.world_size > 1 else None,
                done=self.observers.evaluation(split, len(examples[share[0] :: share[1]])),
            )

    def _save(self, best: bool) -> None:
        """Save the state, and the weights as the best ones if they are: before the state, so that a kill repeats it."""
        if self.directory is None or not self.fabric.is_global_zero:
            return
        scaler = self.stepper.scaler
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": asdict(self.position),
            "scaler": scaler.state_dict() if scaler is not None else {},
        }
        weights = fitted_weights(state["model"], self.stages[-1].model) if best else None
        try:
            save_checkpoint(self.directory, state, weights)
        except TypeError as error:
            name = self.spec.optimizer.name
            raise PluginError(f"optimizer '{name}' keeps something that cannot be saved: {error}") from error

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint. Each step seeds the random numbers, so that these have no state to restore."""
        try:
            self._enter_stage(Position(**state["position"]))
            load_weights(self.model, state["model"], Path("the last checkpoint"))
            self.optimizer.load_state_dict(state["optimizer"])
            if self.stepper.scaler is not None and state["scaler"]:
                self.stepper.scaler.load_state_dict(state["scaler"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise CrvnnError(f"the last checkpoint does not fit this run: {error!r}") from error
