"""What a recursion did, step by step. Trees and pictures are made from this alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(eq=False)
class Trace:
    """The probabilities of K steps over B sequences of up to n tokens, START and END left out.

    A sequence that has halted has ``compose`` 0 and keeps its ``exists``.
    """

    compose: Tensor  # [K, B, n] composition probabilities c of each step
    exists: Tensor  # [K + 1, B, n] existential probabilities e before the first step and after each
    mask: Tensor  # [B, n] true at tokens
    steps: Tensor  # [B] steps taken

    @property
    def alive(self) -> Tensor:
        """[K] how many sequences took part in each step."""
        numbers = torch.arange(len(self.compose), device=self.steps.device)
        return (self.steps > numbers[:, None]).sum(1)


class Recorder:
    """Collects a trace while sequences leave the batch one after another."""

    def __init__(self, mask: Tensor, dtype: torch.dtype, offset: int) -> None:
        self._mask = mask
        self._offset = offset  # where the tokens begin: 1 behind START
        self._exists = [mask.to(dtype)]
        self._compose: list[Tensor] = []

    def record(self, rows: Tensor, compose: Tensor, exists: Tensor) -> None:
        """A step of the sequences ``rows``; the others stay as they are."""
        n = min(self._mask.shape[1], compose.shape[1] - self._offset)
        tokens = slice(self._offset, self._offset + n)
        before = self._exists[-1]
        mask = self._mask[rows, :n]
        now, chosen = before.clone(), torch.zeros_like(before)
        now[rows, :n] = exists[:, tokens].detach().to(before.dtype) * mask
        chosen[rows, :n] = compose[:, tokens].detach().to(before.dtype) * mask
        self._exists.append(now)
        self._compose.append(chosen)

    def finish(self, steps: Tensor) -> Trace:
        """The whole trace."""
        compose = (
            torch.stack(self._compose) if self._compose else self._exists[0].new_zeros(0, *self._mask.shape)
        )
        return Trace(compose, torch.stack(self._exists), self._mask, steps)
