"""One step of training: the gradient of a batch, in whatever portions and processes, and what can go wrong with it."""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from attrs import define
from lightning_fabric import Fabric
from torch import Tensor

from crvnn_core.errors import CrvnnError, InputError
from crvnn_core.inference.model import Model
from crvnn_core.interfaces import Example
from crvnn_core.runs.directory import RunDirectory
from crvnn_core.training.data import collate, example_length, padded_size, within_budget
from crvnn_core.training.memory import free, out_of_memory

_LEAST_SCALE = 1e-4  # of half-precision losses; below this nothing but overflow is left


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


def summed(fabric: Fabric, tensor: Tensor) -> Tensor:
    """A tensor summed over all processes."""
    if fabric.world_size == 1:
        return tensor
    total = fabric.all_reduce(tensor, reduce_op="sum")
    assert isinstance(total, Tensor)
    return total


@define(eq=False)
class Stepper:
    """Changes the weights by one batch after another."""

    fabric: Fabric
    model: Model
    fast_model: Any  # the same as Fabric sees it, and so for the optimizer
    fast_optimizer: Any
    position: Position
    seed: int
    clip: float
    directory: RunDirectory | None
    note: Callable[[str], None]  # tells the user something

    @property
    def scaler(self) -> Any:
        """Of half-precision losses; ``None`` where there is none."""
        return getattr(self.fabric._precision, "scaler", None)

    def update(self, examples: Sequence[Example]) -> dict[str, float]:
        """Take one step on these examples: the gradient, its check, the optimizer."""
        facts = self._gradient(examples)
        norm = self.fabric.clip_gradients(
            self.fast_model, self.fast_optimizer, max_norm=self.clip, error_if_nonfinite=False
        )
        assert norm is not None
        *numbers, size = torch.cat([summed(self.fabric, facts), norm.detach().float().reshape(1)]).tolist()
        exhausted = self.scaler is not None and self.scaler.get_scale() < _LEAST_SCALE
        # An overflow is nothing to worry about as long as the scaler can deal with it: it skips the step.
        overflows = self.scaler is not None and not exhausted
        if not math.isfinite(numbers[0]) or not (math.isfinite(size) or overflows):
            self._fail(
                examples, f"the loss is {numbers[0] / len(examples):.4g} and the gradient's norm {size:.4g}"
            )
        self.fast_optimizer.step()
        means = (number / len(examples) for number in numbers)
        return dict(zip(("loss", "accuracy", "depth"), means, strict=True))

    def _gradient(self, examples: Sequence[Example]) -> Tensor:
        """The gradient of a batch; if memory runs out, again in smaller portions."""
        while True:
            try:
                return self._accumulate(examples)
            except InputError as error:  # the data was checked, so this comes from the weights
                self._fail(examples, str(error))
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                cause = error.with_traceback(None)  # which would keep alive what has to go
            self._shrink(examples, cause)

    def _shrink(self, examples: Sequence[Example], cause: RuntimeError) -> None:
        mine = self._share(examples)
        groups = within_budget(mine, self.position.tokens)
        largest = max(padded_size([mine[i] for i in group]) for group in groups)
        step = self.position.step + 1
        if self.fabric.world_size > 1 or max(map(example_length, mine)) >= largest:
            raise CrvnnError(
                f"memory ran out at step {step}, with {largest:,} tokens at a time. "
                f"Set training.tokens to less than that. {self._last_good()}"
            ) from cause
        self.position.tokens = max(largest // 2, 1)
        free()
        self.note(
            f"memory ran out at step {step} with {largest:,} tokens at a time; "
            f"going on with at most {self.position.tokens:,} (the batch stays as it is)"
        )

    def _share(self, examples: Sequence[Example]) -> Sequence[Example]:
        """This process's part of a batch: every n-th example of n processes."""
        return examples[self.fabric.global_rank :: self.fabric.world_size]

    def _accumulate(self, examples: Sequence[Example]) -> Tensor:
        """Leave the gradient of the whole batch in the parameters, in portions that fit.

        The result is this process's loss, right answers and depth, summed over its examples.
        """
        self._seed_step()
        self.fast_optimizer.zero_grad()
        mine = self._share(examples)
        used = mine or examples[:1]  # a process without a share still takes part in the sums
        groups = within_budget(used, self.position.tokens)
        facts = torch.zeros(3, device=self.fabric.device)
        for number, group in enumerate(groups, 1):
            batch = collate([used[i] for i in group], self.model.vocabulary).to(self.fabric.device)
            counted = len(group) if mine else 0
            waiting = number < len(groups) and self.fabric.world_size > 1
            with self.fabric.no_backward_sync(self.fast_model, enabled=waiting):
                output = self.fast_model(batch)
                loss = output.loss(batch.labels)
                # DDP averages over processes, so each one counts for its share of the whole batch.
                self.fabric.backward(loss * (counted * self.fabric.world_size / len(examples)))
            right = (output.logits.argmax(-1) == batch.labels).sum()
            depth = torch.stack([encoding.steps for encoding in output.encodings]).float().mean()
            means = torch.stack([loss.detach().float(), right.float() / len(group), depth])
            facts += means * counted
        return facts

    def _seed_step(self) -> None:
        """Whatever is random in a step follows from the seed, the step and the process, wherever it was taken up."""
        import numpy as np

        words = f"{self.seed} {self.position.step} {self.fabric.global_rank}"
        number = zlib.crc32(words.encode())
        torch.manual_seed(number)
        random.seed(number)
        np.random.seed(number)

    def _fail(self, examples: Sequence[Example], what: str) -> NoReturn:
        position = self.position
        parts = [f"{what} at step {position.step + 1} (batch {position.batch} of epoch {position.epoch})"]
        parts[0] += ", and the weights were not changed by it."
        if self.directory is not None:
            if self.fabric.is_global_zero:
                lines = [json.dumps({"sequences": e.sequences, "label": int(e.label)}) for e in examples]
                self.directory.failed_batch.write_text("\n".join(lines) + "\n", encoding="utf-8")
            parts.append(f"Its examples are in {self.directory.failed_batch}.")
        parts.append(self._last_good())
        parts.append("A smaller learning rate may help (--set training.optimizer.learning_rate=...).")
        raise CrvnnError(" ".join(parts))

    def _last_good(self) -> str:
        if self.directory is None or not self.directory.last.exists():
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {self.directory.last}."
