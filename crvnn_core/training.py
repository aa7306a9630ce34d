"""Training: one loop from a laptop to many devices, which can be stopped anywhere and taken up again."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, define, frozen
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision import MixedPrecision
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor

from crvnn_core import checkpoint
from crvnn_core.assembly import Assembly
from crvnn_core.data import (
    collate,
    epoch_batches,
    example_length,
    padded_size,
    split_examples,
    within_budget,
)
from crvnn_core.errors import CrvnnError
from crvnn_core.evaluation import Result, evaluate
from crvnn_core.interfaces import Example, Observer
from crvnn_core.metrics import JsonLines
from crvnn_core.model import Model
from crvnn_core.run import RunDirectory
from crvnn_core.schedule import set_progress
from crvnn_core.spec import TrainingSpec


@define
class Position:
    """How far training has come."""

    epoch: int = 0
    batch: int = 0  # the next one of the epoch
    step: int = 0
    best: float | None = None  # of what is watched; larger is better
    best_step: int = 0
    stale: int = 0  # looks since it improved
    plateau: int = 0  # looks since it improved or the learning rate was halved
    halvings: int = 0
    tokens: int = 0  # that go through the model at a time; shrinks when memory runs out
    total: int = 0  # steps in all
    limits: tuple[int, int] = (0, 0)  # epochs and steps that the total was reckoned from


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
    trainer = Trainer(assembly, fabric, run)
    if resume:
        trainer.take_up()
    elif run is not None:
        if fabric.is_global_zero:
            run.begin(assembly)
        fabric.barrier()
    return trainer.run(evaluate_splits)


def launched(spec: TrainingSpec) -> Fabric:
    """Lightning Fabric with the devices, the precision and the processes that a spec asks for.

    Under ``torchrun`` the number of processes is torchrun's.
    """
    if spec.threads:
        torch.set_num_threads(spec.threads)
    here, everywhere = (int(os.environ.get(name, 0)) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    devices = here or spec.devices
    nodes = everywhere // here if here else 1
    strategy = DDPStrategy(find_unused_parameters=True) if devices * nodes > 1 else "auto"
    precision: Any = {"32": "32-true", "64": "64-true"}.get(spec.precision, spec.precision)
    options: dict[str, Any] = {"precision": precision}
    if spec.precision == "16-mixed" and torch.cuda.is_available():  # our own scaler, so that it can be saved
        options = {"plugins": MixedPrecision("16-mixed", "cuda", torch.amp.GradScaler("cuda"))}
    try:
        fabric = Fabric(
            accelerator=spec.accelerator, devices=devices, num_nodes=nodes, strategy=strategy, **options
        )
        fabric.launch()
    except (RuntimeError, ValueError, ImportError) as error:  # a device that is not here, say
        raise CrvnnError(f"[training] cannot be done on this machine: {error}") from error
    return fabric


class Trainer:
    """One run: the model, where it stands, and how to take the next step."""

    def __init__(self, assembly: Assembly, fabric: Fabric, run: RunDirectory | None) -> None:
        self.assembly, self.fabric, self.directory = assembly, fabric, run
        self.spec, self.task = assembly.spec.training, assembly.task
        self.optimizer = assembly.optimizer()
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.spec.start:
            begin_with(assembly.model, Path(self.spec.start))
        self.model: Model = assembly.model
        self.fast_model, self.fast_optimizer = fabric.setup(assembly.model, self.optimizer)
        self.position = Position(tokens=self.spec.tokens)
        self.observers: list[Observer] = []
        self.interrupted = False
        self._epoch: list[list[Example]] = []
        self._dev: list[Example] | None = None

    def run(self, evaluate_splits: Sequence[str] | None = None) -> Outcome:
        """Train to the end, or until it is time to stop."""
        self._load_epoch()
        self._set_total()
        begun = list(self._observers())
        stopped = ""
        try:
            facts = {
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "step": self.position.step,
                "directory": str(self.directory.path) if self.directory else None,
            }
            for observer in begun:
                observer.started(self.position.total, facts)
                self.observers.append(observer)
            with self._stopping_gently():
                while not (stopped := self._reason_to_stop()):
                    self._step()
            results = {} if self.interrupted else self._finish(evaluate_splits)
        finally:
            for observer in self.observers:
                observer.finished({})
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
        return bool(self._sum(torch.tensor(float(self.interrupted), device=self.fabric.device)) > 0)

    # One step.

    def _step(self) -> None:
        position = self.position
        examples = self._epoch[position.batch]
        set_progress(self.model, (position.step + 1) / position.total)
        self._set_learning_rate()
        # Dropout follows from the seed, the step and the process alone, wherever training was taken up.
        torch.manual_seed(
            zlib.crc32(f"{self.assembly.spec.seed} {position.step} {self.fabric.global_rank}".encode())
        )
        began = time.perf_counter()
        metrics = self._update(examples)
        position.step += 1
        position.batch += 1
        if position.batch == len(self._epoch):
            position.epoch, position.batch = position.epoch + 1, 0
        seconds = time.perf_counter() - began
        metrics["tokens_per_second"] = sum(map(example_length, examples)) / seconds
        metrics["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        for observer in self.observers:
            observer.stepped(position.step, metrics)
        every = self.spec.evaluate_every
        last = position.step == position.total
        if last or (position.step % every == 0 if every else position.batch == 0):
            self._look()
        elif self.spec.save_every and position.step % self.spec.save_every == 0:
            self._save(best=False)
        if position.batch == 0 and not last:
            self._load_epoch()

    def _update(self, examples: Sequence[Example]) -> dict[str, float]:
        """Take one step on these examples; if memory runs out, again in smaller portions."""
        mine = examples[self.fabric.global_rank :: self.fabric.world_size]
        while True:
            try:
                return self._accumulate(mine, len(examples))
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if not _out_of_memory(error):
                    raise
                largest = max(padded_size(group) for group in within_budget(mine, self.position.tokens))
                if self.fabric.world_size > 1 or max(map(example_length, mine)) >= largest:
                    raise CrvnnError(
                        f"memory ran out at step {self.position.step + 1}, with {largest:,} tokens at a time. "
                        f"Set training.tokens to less than that. {self._last_good()}"
                    ) from error
                self.position.tokens = max(largest // 2, 1)
                _free()
                self._note(
                    f"memory ran out at step {self.position.step + 1} with {largest:,} tokens at a time; "
                    f"going on with at most {self.position.tokens:,} (the batch stays as it is)"
                )

    def _accumulate(self, mine: Sequence[Example], whole: int) -> dict[str, float]:
        """The gradient of the whole batch, in portions that fit; then a step of the optimizer."""
        self.fast_optimizer.zero_grad()
        groups = within_budget(mine, self.position.tokens)
        facts = torch.zeros(3, device=self.fabric.device)  # loss, right, depth; summed over examples
        for number, group in enumerate(groups, 1):
            batch = collate(group, self.model.vocabulary).to(self.fabric.device)
            waiting = number < len(groups) and self.fabric.world_size > 1
            with self.fabric.no_backward_sync(self.fast_model, enabled=waiting):
                output = self.fast_model(batch)
                loss = output.loss(batch.labels)
                # DDP averages over processes, so each one counts for its share of the whole batch.
                self.fabric.backward(loss * (len(group) * self.fabric.world_size / whole))
            right = (output.logits.argmax(-1) == batch.labels).sum()
            depth = torch.stack([encoding.steps for encoding in output.encodings]).float().mean()
            facts += torch.stack([loss.detach().float() * len(group), right.float(), depth * len(group)])
        norm = self.fabric.clip_gradients(
            self.fast_model, self.fast_optimizer, max_norm=self.spec.clip, error_if_nonfinite=False
        )
        assert norm is not None
        *numbers, size = torch.cat([self._sum(facts), norm.detach().float().reshape(1)]).tolist()
        scaled = self.spec.precision == "16-mixed"  # where the scaler skips a step that overflows
        if not math.isfinite(numbers[0]) or not (math.isfinite(size) or scaled):
            self._fail(mine, f"the loss is {numbers[0] / whole:.4g} and the gradient's norm {size:.4g}")
        self.fast_optimizer.step()
        return dict(zip(("loss", "accuracy", "depth"), (number / whole for number in numbers), strict=True))

    def _fail(self, examples: Sequence[Example], what: str) -> None:
        where = ""
        if self.directory is not None and self.fabric.is_global_zero:
            lines = [json.dumps({"sequences": e.sequences, "label": e.label}) for e in examples]
            self.directory.failed_batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
            where = f" Its examples are in {self.directory.failed_batch}."
        position = self.position
        raise CrvnnError(
            f"{what} at step {position.step + 1} (batch {position.batch} of epoch {position.epoch}), "
            f"and the weights were not changed by it.{where} {self._last_good()} A smaller learning rate may help."
        )

    def _last_good(self) -> str:
        if self.directory is None or not self.directory.last.exists():
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {self.directory.last}."

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
        if len(self.task.splits) < 2:
            position.best_step = position.step
            self._save(best=True)
            return
        if self._dev is None:
            self._dev = list(split_examples(self.task, self.task.splits[1], 0))
        score = self._evaluate(self._dev).total
        watched = score.accuracy if self.spec.watch == "accuracy" else -score.loss
        better = position.best is None or watched > position.best
        if better:
            position.best, position.best_step = watched, position.step
            position.stale = position.plateau = 0
        else:
            position.stale += 1
            position.plateau += 1
        for observer in self.observers:
            observer.evaluated(position.step, score.metrics())
        if self.spec.halve_after and position.plateau >= self.spec.halve_after:
            position.plateau = 0
            position.halvings += 1
            self._note(f"no better since step {position.best_step}: the learning rate is halved")
        self._save(best=better)

    def _evaluate(self, examples: Sequence[Example]) -> Result:
        with self.fabric.autocast():
            return evaluate(
                self.model,
                self.task,
                examples,
                tokens=self.position.tokens,
                share=(self.fabric.global_rank, self.fabric.world_size),
                gather=self._sum,
            )

    def _finish(self, splits: Sequence[str] | None) -> dict[str, Result]:
        """Evaluate the best weights on every split that was not trained on."""
        if self.directory is not None and self.directory.weights.exists():
            self.fabric.barrier()
            self.model.load_state_dict(checkpoint.load(self.directory.weights)["model"])
        names = self.task.splits[1:] if splits is None else splits
        results = {name: self._evaluate(list(split_examples(self.task, name, 0))) for name in names}
        if self.directory is not None and self.fabric.is_global_zero:
            plain = {name: result.plain() for name, result in results.items()}
            self.directory.write_json(
                self.directory.results,
                {"seed": self.assembly.spec.seed, "step": self.position.best_step, "splits": plain},
            )
        return results

    # Keeping and taking up.

    def _save(self, best: bool) -> None:
        if self.directory is not None and self.fabric.is_global_zero:
            self.directory.save_checkpoint(self._state(), best)

    def _state(self) -> dict[str, Any]:
        scaler = getattr(self.fabric._precision, "scaler", None)
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": asdict(self.position),
            "random": checkpoint.random_states(),
            "scaler": scaler.state_dict() if scaler is not None else {},
        }

    def take_up(self) -> None:
        """Go on where the last checkpoint was written."""
        assert self.directory is not None
        if not self.directory.last.exists():
            return  # it was stopped before its first checkpoint: begin anew
        state = checkpoint.load(self.directory.last)
        load_weights(self.model, state["model"], self.directory.last)
        self.optimizer.load_state_dict(state["optimizer"])
        self.position = Position(**state["position"])
        checkpoint.restore_random_states(state["random"])
        scaler = getattr(self.fabric._precision, "scaler", None)
        if scaler is not None and state["scaler"]:
            scaler.load_state_dict(state["scaler"])

    # Small things.

    def _load_epoch(self) -> None:
        self._epoch = epoch_batches(self.task, self.spec.batch, self.assembly.spec.seed, self.position.epoch)
        world = self.fabric.world_size
        self._epoch = [batch for batch in self._epoch if len(batch) >= world]  # one example for each process
        if not self._epoch:
            raise CrvnnError(f"there are fewer training examples than processes ({world}), or none at all")

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

    def _observers(self) -> Iterator[Observer]:
        if self.fabric.is_global_zero:
            yield from self.assembly.observers
            if self.directory is not None:
                yield JsonLines(str(self.directory.metrics))

    def _note(self, message: str) -> None:
        for observer in self.observers:
            observer.noted(message)

    def _sum(self, tensor: Tensor) -> Tensor:
        if self.fabric.world_size == 1:
            return tensor
        total = self.fabric.all_reduce(tensor, reduce_op="sum")
        assert isinstance(total, Tensor)
        return total

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

        before = {which: signal.signal(which, note) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)


def load_weights(model: Model, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put saved weights into a model; if they do not fit, an error that says in what."""
    ours = model.state_dict()
    if "embed.weight" in weights and len(weights["embed.weight"]) != len(ours["embed.weight"]):
        raise CrvnnError(
            f"{path}: these weights know {len(weights['embed.weight'])} tokens, but the vocabulary has "
            f"{len(ours['embed.weight'])}; they belong to different runs"
        )
    problems = [f"missing: {name}" for name in ours if name not in weights]
    problems += [f"unknown: {name}" for name in weights if name not in ours]
    problems += [
        f"misshapen: {name} is {list(weights[name].shape)}, the model's {list(tensor.shape)}"
        for name, tensor in ours.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    if problems:
        raise CrvnnError(f"{path}: these weights do not fit the model:\n  " + "\n  ".join(problems))
    model.load_state_dict(dict(weights))


def begin_with(model: Model, path: Path) -> None:
    """Start from the weights of another run."""
    run = RunDirectory(path)
    if not run.weights.exists():
        raise CrvnnError(f"[training.start]: {run.missing(run.weights)}")
    if run.read_lexicon().tokens != model.vocabulary.tokens:
        raise CrvnnError(
            f"[training.start]: the vocabulary of {path} is another; its weights mean nothing here"
        )
    load_weights(model, checkpoint.load(run.weights)["model"], run.weights)


def _out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _free() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
