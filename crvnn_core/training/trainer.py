"""Training: one loop from a laptop to many devices, which can be stopped anywhere and taken up again."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, frozen
from lightning_fabric import Fabric
from torch import Tensor

from crvnn_core.engine.schedule import set_progress
from crvnn_core.errors import CrvnnError, PluginError
from crvnn_core.inference.model import Model
from crvnn_core.inference.weights import begin_with, load_weights, saved_weights
from crvnn_core.interfaces import Example, Observer
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.runs.metrics import JsonLines
from crvnn_core.spec import spec_dict, write_spec
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training import checkpoint
from crvnn_core.training.data import (
    epoch_batches,
    example_length,
    split_examples,
)
from crvnn_core.training.devices import launched
from crvnn_core.training.dispatch import Audience
from crvnn_core.training.evaluation import Result, evaluate
from crvnn_core.training.step import Position, Stepper, summed


@frozen
class Outcome:
    """How training ended."""

    step: int
    best_step: int
    results: Mapping[str, Result]  # of the best weights, by split
    stopped: str = ""  # why it ended before its time, if it did
    finished: bool = True  # false if it was interrupted and can go on


def train(
    assembly: Assembly,
    out: Path | None = None,
    *,
    resume: bool = False,
    fabric: Fabric | None = None,
    evaluate_splits: Sequence[str] | None = None,
) -> Outcome:
    """Train what a spec describes.

    :param out: the run directory; nothing is written without one.
    :param resume: go on with the run that is there.
    :param fabric: already launched, if the caller needed it before.
    :param evaluate_splits: to evaluate in the end; all but the training split, if not given.
    """
    fabric = fabric or launched(assembly.spec.training)
    run = RunDirectory(out) if out is not None else None
    with contextlib.ExitStack() as stack:
        if run is not None and fabric.is_global_zero:
            if not resume:
                run.begin(assembly)
            stack.enter_context(run.alone())
        state = _from_first(fabric, lambda: _last_state(assembly, run)) if resume else {}
        if not state and assembly.spec.training.start:
            begin_with(assembly.model, Path(assembly.spec.training.start))
        fabric.barrier()
        trainer = Trainer(assembly, fabric, run)
        if state:
            trainer.take_up(state)
        return trainer.run(evaluate_splits)


def _from_first(fabric: Fabric, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the first process reads from its disk, in every process."""
    if fabric.world_size == 1:
        return read()
    found: dict[str, Any] = fabric.broadcast(read() if fabric.is_global_zero else {})
    return found


def _last_state(assembly: Assembly, run: RunDirectory | None) -> dict[str, Any]:
    """The last checkpoint of a run that is taken up, or nothing if it was stopped before its first one."""
    if run is None or not run.spec.exists():
        raise CrvnnError(run.missing(run.spec) if run else "there is no run to go on with: say where it is")
    lexicon = run.read_lexicon()
    if (lexicon.tokens, lexicon.classes) != (assembly.model.vocabulary.tokens, tuple(assembly.task.classes)):
        raise CrvnnError(
            f"{run.path}: the data has other tokens or classes than when this run was begun; "
            "put the old data back, or begin a new run"
        )
    found = next((path for path in (run.last, run.best) if path.exists()), None)
    if found is None and run.results.exists():  # it came to its end: do not begin anew over it
        raise CrvnnError(f"{run.missing(run.last)}; without it this run cannot go on")
    state = checkpoint.load(found) if found is not None else {}
    if tomllib.loads(run.spec.read_text(encoding="utf-8")) != spec_dict(assembly.spec):
        write_spec(assembly.spec, run.spec, assembly.notes())  # how long and where have changed
    return state


class Trainer:
    """One run: the model, where it stands, and how to take the next step."""

    def __init__(self, assembly: Assembly, fabric: Fabric, run: RunDirectory | None) -> None:
        self.assembly, self.fabric, self.directory = assembly, fabric, run
        self.spec, self.task = assembly.spec.training, assembly.task
        self.model: Model = assembly.model
        self.fast_model = fabric.setup_module(assembly.model)
        self.optimizer, self.fast_optimizer = self._optimizers()
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.position = Position(tokens=self.spec.tokens)
        self.audience = Audience(list(self._observers()))
        self.stepper = Stepper(
            fabric=fabric,
            model=self.model,
            fast_model=self.fast_model,
            fast_optimizer=self.fast_optimizer,
            position=self.position,
            seed=assembly.spec.seed,
            clip=self.spec.clip,
            directory=run,
            note=self._note,
        )
        self.interrupted = False
        self._epoch: list[list[Example]] = []
        self._dev: list[Example] | None = None
        self._best: dict[str, Tensor] = {}  # weights, where there is no directory to keep them

    def run(self, evaluate_splits: Sequence[str] | None = None) -> Outcome:
        """Train to the end, or until it is time to stop."""
        names = list(self.task.splits[1:] if evaluate_splits is None else evaluate_splits)
        for name in {*names, *self._development}:
            next(split_examples(self.task, name, 0), None)  # what is missing is missed now, not in the end
        self._load_epoch()
        self._set_total()
        self.model.train()
        stopped = ""
        try:
            facts = {
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "step": self.position.step,
                "directory": str(self.directory.path) if self.directory else None,
            }
            self.audience.start(self.position.total, facts)
            if not self._development:
                self._note(
                    "there is no development split: the last weights are kept, and nothing stops early"
                )
            with self._stopping_gently():
                while not (stopped := self._reason_to_stop()):
                    self._step()
            results = {} if self.interrupted else self._finish(names)
        except BaseException:
            with contextlib.suppress(CrvnnError):  # what went wrong first is what matters
                self.audience.dismiss()
            raise
        self.audience.dismiss()
        early = "" if self.position.step >= self.position.total else stopped
        return Outcome(self.position.step, self.position.best_step, results, early, not self.interrupted)

    def _reason_to_stop(self) -> str:
        position = self.position
        if self._asked_to_stop():
            self.interrupted = True
            self._save(best=False)
            return f"interrupted after step {position.step}"
        if position.step >= position.total:
            return "done"
        if self.spec.patience and position.stale >= self.spec.patience:
            return f"no better since step {position.best_step}"
        return ""

    def _asked_to_stop(self) -> bool:
        """Whether any of the processes was interrupted: all of them must take the same number of steps."""
        if self.fabric.world_size == 1:
            return self.interrupted
        return bool(summed(self.fabric, torch.tensor(float(self.interrupted), device=self.fabric.device)) > 0)

    # One step.

    def _step(self) -> None:
        position = self.position
        examples = self._epoch[position.batch]
        set_progress(self.model, (position.step + 1) / position.total)
        self._set_learning_rate()
        began = time.perf_counter()
        metrics = self.stepper.update(examples)
        position.step += 1
        position.batch += 1
        if position.batch == len(self._epoch):
            position.epoch, position.batch = position.epoch + 1, 0
        seconds = time.perf_counter() - began
        metrics["tokens_per_second"] = sum(map(example_length, examples)) / seconds
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        self.audience.tell("stepped", position.step, metrics)
        every = self.spec.evaluate_every
        last = position.step == position.total
        if last or (position.step % every == 0 if every else position.batch == 0):
            self._look()
        elif self.spec.save_every and position.step % self.spec.save_every == 0:
            self._save(best=False)
        if position.batch == 0 and not last:
            self._load_epoch()

    def _set_learning_rate(self) -> None:
        factor = 0.5**self.position.halvings
        if self.position.step < self.spec.warmup:
            factor *= (self.position.step + 1) / self.spec.warmup
        if self.spec.anneal:
            factor *= 0.5 * (1 + math.cos(math.pi * self.position.step / self.position.total))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    # Looking at the development split, and what follows from it.

    def _look(self) -> None:
        position = self.position
        if not self._development:
            position.best_step = position.step
            self._save(best=True)
            return
        if self._dev is None:
            self._dev = list(split_examples(self.task, self._development[0], 0))
        score = self._evaluate(self._dev).total
        watched = score.accuracy if self.spec.watch == "accuracy" else -score.loss
        watched = watched if math.isfinite(watched) else -math.inf
        better = position.best is None or watched > position.best
        if better:
            position.best, position.best_step = watched, position.step
            position.stale = position.plateau = 0
            if self.directory is None:
                self._best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        else:
            position.stale += 1
            position.plateau += 1
        self.audience.tell("evaluated", position.step, score.metrics())
        if self.spec.halve_after and position.plateau >= self.spec.halve_after:
            position.plateau = 0
            position.halvings += 1
            self._note(f"no better since step {position.best_step}: the learning rate is halved")
        self._save(best=better)

    @property
    def _development(self) -> list[str]:
        """The development split, if there is one; never another in its place."""
        return [name for name in self.task.splits[1:] if name == self.task.development]

    def _evaluate(self, examples: Sequence[Example]) -> Result:
        with self.fabric.autocast():
            return evaluate(
                self.model,
                self.task,
                examples,
                tokens=self.position.tokens,
                share=(self.fabric.global_rank, self.fabric.world_size),
                gather=partial(summed, self.fabric) if self.fabric.world_size > 1 else None,
            )

    def _finish(self, splits: Sequence[str]) -> dict[str, Result]:
        """Evaluate the best weights on splits that were not trained on."""
        weights = _from_first(self.fabric, self._best_weights)
        if weights:
            self.model.load_state_dict(weights)
        results: dict[str, Result] = {}
        for name in splits:
            results[name] = self._evaluate(list(split_examples(self.task, name, 0)))
            if self.directory is not None and self.fabric.is_global_zero:
                plain = {split: result.plain() for split, result in results.items()}
                self.directory.write_json(
                    self.directory.results,
                    {"seed": self.assembly.spec.seed, "step": self.position.best_step, "splits": plain},
                )
        return results

    def _best_weights(self) -> dict[str, Tensor]:
        if self.directory is None:
            return self._best
        return dict(saved_weights(self.directory.weights)) if self.directory.weights.exists() else {}

    # Keeping and taking up.

    def _save(self, best: bool) -> None:
        if self.directory is None or not self.fabric.is_global_zero:
            return
        try:
            self.directory.save_checkpoint(self._state(), best)
        except TypeError as error:
            name = self.spec.optimizer.name
            raise PluginError(f"optimizer '{name}' keeps something that cannot be saved: {error}") from error

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": asdict(self.position),
            "random": checkpoint.random_states(),
            "scaler": self.stepper.scaler.state_dict() if self.stepper.scaler is not None else {},
        }

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        try:
            load_weights(self.model, state["model"], Path("the last checkpoint"))
            self.optimizer.load_state_dict(state["optimizer"])
            self.position = self.stepper.position = Position(**state["position"])
            checkpoint.restore_random_states(state["random"])
            if self.stepper.scaler is not None and state["scaler"]:
                self.stepper.scaler.load_state_dict(state["scaler"])
        except (KeyError, TypeError, ValueError) as error:
            raise CrvnnError(f"the last checkpoint does not fit this run: {error!r}") from error

    # Small things.

    def _load_epoch(self) -> None:
        self._epoch = epoch_batches(self.task, self.spec.batch, self.assembly.spec.seed, self.position.epoch)
        if not self._epoch:
            raise CrvnnError("there are no training examples")

    def _set_total(self) -> None:
        """How many steps there will be, unless a run that is taken up knows it from before."""
        limits = (self.spec.epochs, self.spec.steps)
        position = self.position
        if position.total and position.limits == limits:
            return
        totals = [self.spec.steps] if self.spec.steps else []
        if self.spec.epochs:
            left = max(self.spec.epochs - position.epoch, 0)
            totals.append(position.step - position.batch + left * len(self._epoch))
        position.total, position.limits = min(totals), limits

    def _optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        """The optimizer itself, and as Fabric sees it; made when the model is where it will stay.

        Some optimizers keep a copy of the weights that they begin with.
        """
        optimizer = self.assembly.optimizer()
        return optimizer, self.fabric.setup_optimizers(optimizer)

    def _observers(self) -> Iterator[Observer]:
        if self.fabric.is_global_zero:
            yield from self.assembly.observers
            if self.directory is not None:
                yield JsonLines(str(self.directory.metrics))

    def _note(self, message: str) -> None:
        self.audience.tell("noted", message)

    @contextlib.contextmanager
    def _stopping_gently(self) -> Iterator[None]:
        """The first interruption lets the step finish and saves; the second one is as rude as ever."""
        if self.directory is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def note(number: int, frame: object) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            print("\ncrvnn: stopping after this step; once more stops at once", file=sys.stderr)

        before = {which: signal.signal(which, note) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)
