"""One optimizer step: the gradient of a batch, accumulated over micro-batches and processes, and its failures."""

from __future__ import annotations

import json
import math
import random
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from attrs import define, field
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.interfaces import Example, Objective
from crvnn_core.model.model import Model
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training.data import example_length, out_of_memory, padded_size, within_budget
from crvnn_core.training.processes.devices import Fabric, remark_on_busy_cores, summed
from crvnn_core.training.progress import Position

_WIDER = {"16-mixed": "32", "bf16-mixed": "32", "32-true": "64"}  # from Fabric's names to those of specs
_OVERFLOW = (
    " The loss is finite, so the gradient may have overflowed in the backward pass: if so, a run with --set"
    " training.precision={} does not stop here."
)
_LOOK = 100  # steps between two looks at how busy the cores are, which take some milliseconds
_LEAST_SCALE = 1e-4  # of the gradient scaler; gradients that overflow below this are not finite themselves


@define(eq=False)
class Stepper:
    """Takes optimizer steps."""

    fabric: Fabric
    model: Model
    wrapped_model: Any  # by Fabric, like the optimizer
    wrapped_optimizer: Any
    objective: Objective
    position: Position
    seed: int
    clip: float
    directory: RunDirectory | None
    note: Callable[[str], None]  # tells the observers
    _told: bool = field(default=False, init=False)  # that the cores are busy

    @property
    def scaler(self) -> Any:
        """The gradient scaler of 16-bit mixed precision; ``None`` at other precisions."""
        return getattr(self.fabric._precision, "scaler", None)

    def update(self, examples: Sequence[Example]) -> dict[str, float] | None:
        """Take one step on a batch: its mean loss, accuracy and depth, the seconds it took and the tokens of one.

        The gradient is accumulated over processes, and over micro-batches within the token budget. When memory runs out
        the result is ``None``: the budget is then smaller, and the step can be tried again.
        """
        began = time.perf_counter()
        self._seed_step()
        self.wrapped_optimizer.zero_grad()
        mine = self._share(examples)
        used = mine or examples[:1]  # a process without a share still takes part in the all-reduce
        groups = within_budget(used, self.position.tokens)
        facts = torch.zeros(
            3, device=self.fabric.device
        )  # loss, right answers and depth, summed over examples
        try:
            for number, group in enumerate(groups, 1):
                members = [used[i] for i in group]
                batch = self.model.batch(members).to(self.fabric.device)
                counted = len(group) if mine else 0
                waiting = number < len(groups) and self.fabric.world_size > 1
                with self.fabric.no_backward_sync(self.wrapped_model, enabled=waiting):
                    with self.fabric.autocast():  # for what the objective computes without the wrapped model
                        loss, output = self.objective.loss(self.model, self.wrapped_model, batch, members)
                    # DDP averages over processes, so each one counts for its share of the whole batch.
                    self.fabric.backward(loss * (counted * self.fabric.world_size / len(examples)))
                right = (output.logits.argmax(-1) == batch.labels).sum()
                depth = torch.stack([encoding.steps for encoding in output.encodings]).float().mean()
                facts += torch.stack([loss.detach().float(), right.float() / len(group), depth]) * counted
        except InputError as error:  # the data was checked, so this comes from the weights
            self._fail(examples, str(error))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            self._shrink(used, groups, error)
            return None
        means = dict(zip(("loss", "accuracy", "depth"), self._apply(examples, facts), strict=True))
        seconds = max(time.perf_counter() - began, 1e-9)  # some clocks stand still for so long
        tokens = sum(map(example_length, examples))
        return {**means, "tokens_per_second": tokens / seconds, "seconds": seconds}

    def _apply(self, examples: Sequence[Example], facts: Tensor) -> list[float]:
        """Let the optimizer take its step, unless something is not finite; the means of ``facts`` over the batch."""
        norm = self.fabric.clip_gradients(
            self.wrapped_model, self.wrapped_optimizer, max_norm=self.clip, error_if_nonfinite=False
        )
        assert norm is not None
        *sums, size = torch.cat([summed(self.fabric, facts), norm.detach().float().reshape(1)]).tolist()
        exhausted = self.scaler is not None and self.scaler.get_scale() < _LEAST_SCALE
        # After an overflow the scaler skips the step and lowers the scale.
        overflows = self.scaler is not None and not exhausted
        if not math.isfinite(sums[0]) or not (math.isfinite(size) or overflows):
            what = f"the loss is {sums[0] / len(examples):.4g} and the gradient's norm {size:.4g}"
            wider = _WIDER.get(self.fabric._precision.precision) if math.isfinite(sums[0]) else None
            self._fail(examples, what, _OVERFLOW.format(wider) if wider else "")
        self.wrapped_optimizer.step()
        self._look_at_threads()
        return [number / len(examples) for number in sums]

    def _look_at_threads(self) -> None:
        """Tell the observers once if the cores have become so busy that one thread would be faster."""
        if self._told or (self.position.step + 1) % _LOOK or self.fabric.device.type != "cpu":
            return
        if remark := remark_on_busy_cores():
            self._told = True
            advice = "Interrupt it and resume with --set training.threads=1 to be faster."
            self.note(f"{remark}. {advice}")

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
        self.note(
            f"memory ran out at step {step} with {largest:,} tokens at a time; "
            f"going on with at most {self.position.tokens:,} (the batch stays as it is)"
        )

    def _share(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples of a batch that this process computes: every n-th of n processes."""
        return examples[self.fabric.global_rank :: self.fabric.world_size]

    def _seed_step(self) -> None:
        """Seed every generator with the run's seed, the step and the process, so that a step can be repeated."""
        import numpy as np

        words = f"{self.seed} {self.position.step} {self.fabric.global_rank}"
        number = zlib.crc32(words.encode())
        torch.manual_seed(number)
        random.seed(number)
        np.random.seed(number)

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
