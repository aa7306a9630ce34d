"""What a recursion did, step by step. Trees and pictures are made from this alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from crvnn_core.engine.state import State
from crvnn_core.views import make_frame, view

if TYPE_CHECKING:
    import pandas

#: The columns of ``step_rows``.
STEP_COLUMNS = ("sequence", "step", "position", "token", "exists", "compose")


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

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each sequence, step and position; the tokens are not known."""
        rows: list[dict[str, Any]] = []
        for number, (n, steps) in enumerate(zip(self.mask.sum(1).tolist(), self.steps.tolist(), strict=True)):
            exists = self.exists[: steps + 1, number, :n].tolist()
            rows += step_rows(number, [None] * n, exists, self.compose[:steps, number, :n].tolist())
        return make_frame(rows, [name for name in STEP_COLUMNS if name != "token"])

    def _repr_html_(self) -> str | None:
        return view(self)


def step_rows(
    number: int,
    tokens: Sequence[str | None],
    exists: Sequence[Sequence[float]],
    compose: Sequence[Sequence[float]],
) -> Iterator[dict[str, Any]]:
    """By token, e after each step and c of the step; step 0 is the beginning, where nothing has been composed."""
    for step, row in enumerate(exists):
        for position, token in enumerate(tokens):
            c = compose[step - 1][position] if step else 0.0
            values = (number, step, position, token, row[position], c)
            yield dict(zip(STEP_COLUMNS, values, strict=True))


class Recorder:
    """Collects a trace while sequences leave the batch, and positions their sequences, one after another."""

    def __init__(self, mask: Tensor, dtype: torch.dtype) -> None:
        self._mask = mask
        self._exists = [pad(mask.to(dtype), (0, 1))]  # one more column, for what is no token
        self._compose: list[Tensor] = []

    def record(self, state: State, compose: Tensor, exists: Tensor) -> None:
        """A step of the sequences in ``state``; the others stay as they are."""
        before = self._exists[-1]
        rows, column = (
            state.batch_index.unsqueeze(1),
            torch.where(state.tokens, state.place, self._mask.shape[1]),
        )
        now, chosen = before.clone(), torch.zeros_like(before)
        now[state.batch_index] = 0  # dropped positions no longer exist
        now[rows, column] = exists.detach().to(before.dtype)
        chosen[rows, column] = compose.detach().to(before.dtype)
        self._exists.append(now)
        self._compose.append(chosen)

    def finish(self, steps: Tensor) -> Trace:
        """The whole trace."""
        exists = torch.stack(self._exists)[:, :, :-1]
        compose = torch.stack(self._compose)[:, :, :-1] if self._compose else exists[:0]
        return Trace(compose, exists, self._mask, steps)
