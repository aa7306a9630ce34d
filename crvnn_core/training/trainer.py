"""The training loop: the same for one device and many; it can be stopped at any step and resumed."""

from __future__ import annotations

import contextlib
import json
import math
import random
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from attrs import asdict
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError, PluginError
from crvnn_core.host.faults import refusing_exit
from crvnn_core.interfaces import Example, set_progress
from crvnn_core.model.model import Model
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.runs.results import Result
from crvnn_core.signals import Interruption
from crvnn_core.spec import spec_dict
from crvnn_core.spec.assembly import Assembly
from crvnn_core.training.data import (
    check_splits,
    data_notes,
    development_split,
    epoch_batches,
    evenly_spaced,
    example_length,
    free_memory,
    out_of_memory,
    padded_size,
    split_examples,
    within_budget,
)
from crvnn_core.training.devices import (
    heartbeats,
    launched,
    products_note,
    read_by_first,
    remark_on_busy_cores,
    rounded_products,
    summed,
)
from crvnn_core.training.evaluation import evaluate, structure
from crvnn_core.training.observers import JsonLines, ObserverDispatch
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

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_WIDER = {"16-mixed": "32", "bf16-mixed": "32", "32-true": "64"}  # from Fabric's names to those of specs
_OVERFLOW = (
    " The loss is finite, so the gradient may have overflowed in the backward pass: if so, a run with --set"
    " training.precision={} does not stop here."
)
_LOOK = 100  # steps between two looks at how busy the cores are, which take some milliseconds
_LEAST_SCALE = 1e-4  # of the gradient scaler; gradients that overflow below this are not finite themselves


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
    :param fabric: already launched, within ``heartbeats``; by default one is launched from the spec.
    :param evaluate_splits: splits on which the best weights are evaluated at the end; by default all but the first,
        which is for training.
    :param notes: for the observers, when training starts.
    """
    beating: AbstractContextManager[None] = contextlib.nullcontext()
    if fabric is None:
        fabric = launched(assembly.spec.training)
        beating = heartbeats(fabric, out)
    run = RunDirectory(out) if out is not None else None
    precision = assembly.spec.training.precision
    with beating, refusing_exit(assembly.catalog), contextlib.ExitStack() as stack:
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
                while True:
                    while not (stopped := trainer.reason_to_stop()):
                        if (metrics := trainer.step()) is not None:
                            trainer.advance(metrics)
                        else:
                            free_memory()
                    if not trainer.next_stage():
                        break
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
        #: The gradient scaler of 16-bit mixed precision.
        self._scaler: Any = getattr(fabric._precision, "scaler", None)
        self._told_of_threads = False  # that the cores are busy
        if state:
            self._restore(state)
        else:
            self._enter_stage(Position(tokens=self.stages[0].spec.training.tokens))

    def _enter_stage(self, position: Position, weights: Mapping[str, Tensor] | None = None) -> None:
        """Set up the stage of ``position``: its model, with the weights of the stage before, and its optimizer."""
        self.position, self.stage = position, self.stages[position.stage]
        self.spec, self.task = self.stage.spec.training, self.stage.task
        self.model: Model = self.stage.model
        self.wrapped_model: Any = self.fabric.setup_module(self.model)
        if weights is not None:
            self.model.load_state_dict(fitted_weights(weights, self.model))
        # Once the weights are on their device: some optimizers copy them.
        self.optimizer = self.stage.optimizer()
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.wrapped_optimizer: Any = self.fabric.setup_optimizers(self.optimizer)
        self.objective = self.stage.objective()
        self._epoch: list[list[Example]] = []
        self._dev: list[Example] | None = None
        self._best: dict[str, Tensor] = {}  # the best weights, where no directory keeps them

    def begin(self, notes: Sequence[str]) -> None:
        """Read the data of the epoch, and tell the observers that training starts."""
        self._prepare_data()
        facts = {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "step": self.position.step,
            "stage": self.position.stage + 1,
            "directory": str(self.directory.path) if self.directory else None,
            "seed": self.assembly.spec.seed,
            "spec": spec_dict(self.assembly.spec),
            "components": {slot: offer.component.name for slot, offer in self.stage.offers.items()},
        }
        self.observers.start(self.position.total, facts)
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

    def step(self) -> dict[str, float] | None:
        """Take one optimizer step on the next batch; its metrics, or ``None`` if it is to be tried again.

        The gradient is accumulated over processes, and over micro-batches within the token budget, which is smaller
        after memory ran out.
        """
        began = time.perf_counter()
        position, fabric, examples = self.position, self.fabric, self._epoch[self.position.batch]
        set_progress(self.model, (position.stage_step + 1) / position.stage_total)
        factor = position.learning_rate_factor(self.spec)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        # Seeded by the step and the process, so that a step can be repeated.
        seed = zlib.crc32(f"{self.assembly.spec.seed} {position.step} {fabric.global_rank}".encode())
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.wrapped_optimizer.zero_grad()
        mine = self._share(examples)
        used = mine or examples[:1]  # a process without a share still takes part in the all-reduce
        groups = within_budget(used, position.tokens)
        facts = torch.zeros(3, device=fabric.device)  # loss, right answers and depth, summed over examples
        try:
            for number, indices in enumerate(groups, 1):
                members = [used[i] for i in indices]
                batch = self.model.batch(members).to(fabric.device)
                counted = len(members) if mine else 0
                waiting = number < len(groups) and fabric.world_size > 1
                with fabric.no_backward_sync(self.wrapped_model, enabled=waiting):
                    with fabric.autocast():  # for what the objective computes without the wrapped model
                        loss, output = self.objective.loss(self.model, self.wrapped_model, batch, members)
                    # DDP averages over processes, so each one counts for its share of the whole batch.
                    fabric.backward(loss * (counted * fabric.world_size / len(examples)))
                right = (output.logits.argmax(-1) == batch.labels).sum()
                depth = torch.stack([encoding.steps for encoding in output.encodings]).float().mean()
                facts += torch.stack([loss.detach().float(), right.float() / len(members), depth]) * counted
        except InputError as error:  # the data was checked, so this comes from the weights
            self._fail(examples, str(error))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            self._shrink(used, groups, error)
            return None
        metrics = dict(zip(("loss", "accuracy", "depth"), self._update_weights(examples, facts), strict=True))
        seconds = max(time.perf_counter() - began, 1e-9)  # some clocks stand still for so long
        tokens = sum(map(example_length, examples))
        learning_rate = self.optimizer.param_groups[0]["lr"]
        speed = {"tokens_per_second": tokens / seconds, "seconds": seconds}
        return {**metrics, **speed, "learning_rate": learning_rate}

    def _update_weights(self, examples: Sequence[Example], facts: Tensor) -> list[float]:
        """Let the optimizer take its step, unless something is not finite; the means of ``facts`` over the batch."""
        norm = self.fabric.clip_gradients(
            self.wrapped_model, self.wrapped_optimizer, max_norm=self.spec.clip, error_if_nonfinite=False
        )
        assert norm is not None
        *sums, size = torch.cat([summed(self.fabric, facts), norm.detach().float().reshape(1)]).tolist()
        scaler = self._scaler  # after an overflow it skips the step and lowers the scale
        overflows = scaler is not None and scaler.get_scale() >= _LEAST_SCALE
        if not math.isfinite(sums[0]) or not (math.isfinite(size) or overflows):
            what = f"the loss is {sums[0] / len(examples):.4g} and the gradient's norm {size:.4g}"
            wider = _WIDER.get(self.fabric._precision.precision) if math.isfinite(sums[0]) else None
            self._fail(examples, what, _OVERFLOW.format(wider) if wider else "")
        self.wrapped_optimizer.step()
        look = (self.position.step + 1) % _LOOK == 0 and self.fabric.device.type == "cpu"
        if look and not self._told_of_threads and (remark := remark_on_busy_cores()):
            self._told_of_threads = True
            self._note(f"{remark}. Interrupt it and resume with --set training.threads=1 to be faster.")
        return [number / len(examples) for number in sums]

    def _shrink(self, mine: Sequence[Example], groups: Sequence[Sequence[int]], error: RuntimeError) -> None:
        """Take a smaller budget than the largest of these groups; an error if that is one example."""
        largest = max(padded_size([mine[i] for i in group]) for group in groups)
        step = self.position.step + 1
        if self.fabric.world_size > 1 or max(map(example_length, mine)) >= largest:
            raise CrvnnError(
                f"memory ran out at step {step}, with {largest:,} tokens at a time. "
                f"Set training.tokens to less than that. {self._last_good()}"
            ) from error
        self.position.tokens = max(largest // 2, 1)
        self._note(
            f"memory ran out at step {step} with {largest:,} tokens at a time; "
            f"going on with at most {self.position.tokens:,} (the batch stays as it is)"
        )

    def _share(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples of a batch that this process computes: every n-th of n processes."""
        return examples[self.fabric.global_rank :: self.fabric.world_size]

    def _fail(self, examples: Sequence[Example], what: str, advice: str = "") -> NoReturn:
        position = self.position
        parts = [f"{what} at step {position.step + 1} (batch {position.batch} of epoch {position.epoch})"]
        parts[0] += ", and the weights were not changed by it."
        if self.directory is not None:
            if self.fabric.is_global_zero:
                lines = [json.dumps({"sequences": e.sequences, "label": int(e.label)}) for e in examples]
                self.directory.failed_batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
            parts.append(f"Its examples are in {self.directory.failed_batch}.")
        parts.append(self._last_good())
        rate = "--set training.optimizer.learning_rate=..., also with --resume"
        parts.append(f"A smaller learning rate may help ({rate}).{advice}")
        raise CrvnnError(" ".join(parts))

    def _last_good(self) -> str:
        if self.directory is None or not self.directory.last.exists():
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {self.directory.last}."

    def advance(self, metrics: Mapping[str, float]) -> None:
        """Count a step, and do what is due after it: tell the observers, evaluate, save, begin the next epoch."""
        position = self.position
        position.advance(len(self._epoch))
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
            self.fabric, lambda: self._best if run is None else saved_weights(run.weights)[0]
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
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": asdict(self.position),
            "scaler": self._scaler.state_dict() if self._scaler is not None else {},
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
            if self._scaler is not None and state["scaler"]:
                self._scaler.load_state_dict(state["scaler"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise CrvnnError(f"the last checkpoint does not fit this run: {error!r}") from error
