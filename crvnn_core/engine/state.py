"""The state of a recursion: nodes, existence, and the masks that say what each position may do; and its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crvnn_core.engine.operations.compaction import compact
from crvnn_core.interfaces import Encoding
from crvnn_core.precision import wide

if TYPE_CHECKING:
    from crvnn_core.engine.trace import Recorder


@dataclass(eq=False)
class State:
    """B active sequences over N positions (START, tokens, END, padding) before step k; r and e of Algorithm 1."""

    nodes: Tensor  # [B, N, s] r: states of the cell
    exists: Tensor  # [B, N] e: existential probabilities
    left_c: Tensor  # [B, N] left(c) of the step before: how far the position is a new parent
    lost: Tensor | None  # [B, N] existence of dropped positions between this one and the one before
    present: Tensor  # [B, N] bool: not padding
    tokens: Tensor  # [B, N] bool: a token, so it may receive
    eligible: Tensor  # [B, N] bool: a token but not the last, so it may be composed with its right neighbour
    place: Tensor  # [B, N] which token of its sequence it is, from 0
    batch_index: Tensor  # [B] place in the batch as it was given
    edge: int  # 1 if START and END stand around the tokens, else 0
    lengths: tuple[int, ...]  # tokens of each sequence, known on the host
    halting: tuple[Tensor, ...] = ()  # the state [B, ...] of a halting that has one
    step: int = 0  # steps taken so far
    all_exist: bool = True  # whether every position that is not padding is known to have e = 1

    def next(self, nodes: Tensor, exists: Tensor, left_c: Tensor) -> State:
        """The state after one step."""
        after = self._copy()
        after.nodes, after.exists, after.left_c = nodes, exists, left_c
        after.step, after.all_exist = self.step + 1, False
        return after

    def _copy(self) -> State:
        """Quicker than ``copy`` and ``replace``, as steps are short."""
        after = object.__new__(State)
        after.__dict__.update(self.__dict__)
        return after

    def last(self) -> Tensor:
        """The position of the last token of each sequence [B]."""
        return self.present.sum(1) - (1 + self.edge)

    def compacted(self, sequences: list[int], kept: Tensor, size: int) -> State:
        """These sequences alone, and of each only the kept positions: at most ``size`` of them."""
        after = self._copy()
        tensors = (self.nodes, self.exists, self.left_c, kept, self.tokens, self.eligible, self.place)
        after.nodes, after.exists, after.left_c, *flags, order = compact(*tensors, sequences, size)
        after.present, after.tokens, after.eligible, after.place = flags
        lost, exists = self.lost, self.exists
        if len(sequences) < len(self.lengths):
            index = torch.tensor(sequences, device=kept.device)
            after.batch_index, after.lengths = (
                self.batch_index[index],
                tuple(self.lengths[i] for i in sequences),
            )
            after.halting = tuple(own[index] for own in self.halting)
            if lost is not None:
                lost, exists, kept = lost[index], exists[index], kept[index]
        if lost is not None:
            after.lost = _lost(lost, exists, kept, order) * after.present
        return after


def kept_within(tolerance: float, state: State, exists: Tensor) -> Tensor:
    """Which positions are kept [B, N]: START, END, last tokens, and what exists.

    With a tolerance, positions are dropped as long as between two kept ones no more than this is lost of existence,
    earlier losses counted. (It is spent in two halves: one for the position next to a kept one, one for those that fall
    into the same interval of the running total.)
    """
    if not tolerance or state.lost is None:
        return state.present & ((exists != 0) | ~state.eligible)
    half = tolerance / 2
    exists = wide(exists.detach())
    small = state.eligible & (exists + state.lost <= half)
    interval = ((exists * small + state.lost).cumsum(1) / half).floor()
    same = torch.zeros_like(small)
    same[:, :-1] = interval[:, 1:] == interval[:, :-1]
    return state.present & ~(small & same)


def _lost(lost: Tensor, exists: Tensor, kept: Tensor, order: Tensor) -> Tensor:
    """The existence lost between kept positions: what was lost before, and that of those dropped now."""
    so_far = (lost + exists.detach() * ~kept).cumsum(1).gather(1, order)
    return torch.diff(so_far, dim=1, prepend=torch.zeros_like(so_far[:, :1]))


@dataclass(eq=False)
class Results:
    """What halted sequences leave behind, root, penalty and number of steps, until they are put in order at the end.

    :param penalty: weight of the halt penalty; 0 for none.
    :param unhalted_only: charge it only to sequences whose steps ran out.
    """

    penalty: float
    unhalted_only: bool
    rows: list[Tensor] = field(default_factory=list)
    nodes: list[Tensor] = field(default_factory=list)
    penalties: list[Tensor] = field(default_factory=list)
    steps: list[Tensor] = field(default_factory=list)

    def add(self, state: State, sequences: list[int], halted: bool) -> None:
        """Keep the results of these sequences of a state, which halted or whose steps ran out."""
        index = torch.tensor(sequences, device=state.nodes.device)
        rows, last = state.batch_index.index_select(0, index), state.last().index_select(0, index)
        self.rows.append(rows)
        self.nodes.append(state.nodes[index, last])
        self.steps.append(torch.full_like(rows, state.step))
        if self.penalty and not (halted and self.unhalted_only):
            exists = state.exists.index_select(0, index)
            remaining = (exists * state.tokens.index_select(0, index)).sum(1)
            ending = exists.gather(1, last.unsqueeze(1)).squeeze(1)
            self.penalties.append(-self.penalty * torch.log(ending / remaining))
        else:
            self.penalties.append(state.exists.new_zeros(len(rows)))

    def encoding(self, readout: Callable[[Tensor], Tensor], recorder: Recorder | None) -> Encoding:
        """All of them, in the order of the batch."""
        order = torch.cat(self.rows).argsort()
        steps = torch.cat(self.steps)[order]
        return Encoding(
            vector=readout(torch.cat(self.nodes)[order]),
            penalty=torch.cat(self.penalties)[order],
            steps=steps,
            trace=recorder.finish(steps) if recorder else None,
        )
