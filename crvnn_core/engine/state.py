"""The state of a recursion: nodes, existence, and the masks that say what each position may do."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from crvnn_core.errors import InputError
from crvnn_core.kernels import ready
from crvnn_core.precision import wide


@dataclass(eq=False)
class Outlook:
    """Who goes on after a step, and what stays of each of B sequences; known before the nodes are made."""

    staying: Tensor  # [B, N] bool: positions that go on
    willing: list[bool]  # whether the halting lets the sequence go on
    going: list[int]  # the sequences that do, as their steps have not run out either
    sizes: list[int]  # positions that stay
    unsure: list[int]  # how many of these may not exist


@dataclass(eq=False)
class State:
    """B sequences that are still going on, over N positions: START, tokens, END, padding."""

    nodes: Tensor  # [B, N, s] states of the cell
    exists: Tensor  # [B, N] existential probabilities e
    gained: Tensor  # [B, N] left(c) of the last step: how far the position is a new parent
    lost: Tensor | None  # [B, N] existence of those that have left between this one and the one before
    present: Tensor  # [B, N] bool: not padding
    tokens: Tensor  # [B, N] bool: a real token, so it may receive
    eligible: Tensor  # [B, N] bool: a real token but not the last, so it may be composed to the right
    place: Tensor  # [B, N] which token of its sequence it is, from 0
    rows: Tensor  # [B] place in the batch as it was given
    behind: int  # positions behind the last token that are not padding: END
    lengths: tuple[int, ...]  # tokens of each sequence, known on the host
    step: int = 0
    whole: bool = True  # whether every position that is not padding is known to exist for sure
    outlook: Outlook | None = None  # who goes on from here, if that is known already

    def advance(self, exists: Tensor, gained: Tensor) -> State:
        """The state after one step, but for its nodes."""
        after = copy(self)  # quicker than ``replace``, once a step
        after.exists, after.gained = exists, gained
        after.step, after.whole, after.outlook = self.step + 1, False, None
        return after

    def last(self) -> Tensor:
        """The position of the last token of each sequence [B]."""
        return self.present.sum(1) - (1 + self.behind)

    def survivors(self, tolerance: float) -> Tensor:
        """Which positions must stay [B, N]: START, END, last tokens, and what exists.

        With a tolerance, positions leave as long as between two that stay no more than this is lost of existence,
        earlier losses counted. (It is spent in two halves: one for the position next to a survivor, one for those
        that fall into the same portion of the running total.)
        """
        if not tolerance or self.lost is None:
            return self.present & ((self.exists != 0) | ~self.eligible)
        half = tolerance / 2
        exists = wide(self.exists.detach())
        small = self.eligible & (exists + self.lost <= half)
        portion = ((exists * small + self.lost).cumsum(1) / half).floor()
        alike = torch.zeros_like(small)
        alike[:, :-1] = portion[:, 1:] == portion[:, :-1]
        return self.present & ~(small & alike)

    def narrow(self, chosen: list[int], staying: Tensor, size: int) -> State:
        """Only these sequences, and of each only the positions that stay: at most ``size`` of them."""
        after = copy(self)
        after.nodes, after.exists, after.gained, *flags, order = _kept(self, chosen, staying, size)
        after.present, after.tokens, after.eligible, after.place = flags
        lost, exists = self.lost, self.exists
        if len(chosen) < len(self.lengths):
            index = torch.tensor(chosen, device=staying.device)
            after.rows, after.lengths = self.rows[index], tuple(self.lengths[i] for i in chosen)
            if lost is not None:
                lost, exists, staying = lost[index], exists[index], staying[index]
        if lost is not None:
            after.lost = _lost(lost, exists, staying, order) * after.present
        return after


def _kept(state: State, chosen: list[int], staying: Tensor, size: int) -> list[Tensor]:
    """Of some sequences the positions that stay: nodes, what exists, left(c), which are no padding, tokens, eligible
    ones, their numbers; and where they were."""
    given = [state.nodes, state.exists, state.gained, staying, state.tokens, state.eligible, state.place]
    if (kernels := ready(*given[:3])) is not None:
        return list(kernels.narrow(*(value.contiguous() for value in given), chosen, size))
    if len(chosen) < len(state.lengths):
        index = torch.tensor(chosen, device=staying.device)
        given = [value[index] for value in given]
    order, present, flat = _places(given[3], size)
    where = flat.flatten()
    nodes, exists, gained = (
        values.flatten(0, 1).index_select(0, where).view(*flat.shape, *values.shape[2:])
        for values in given[:3]
    )
    tokens, eligible, place = (values.gather(1, order) for values in given[4:])
    if len(order) > 1:  # one sequence alone has no padding
        exists, tokens, eligible = exists * present, tokens & present, eligible & present
    return [nodes, exists, gained, present, tokens, eligible, place, order]


def _places(staying: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where the positions that stay are [B, size]; which of these there are; where they are in flat tensors."""
    if len(staying) == 1:
        order = torch.nonzero_static(staying, size=size)[:, 1].unsqueeze(0)
        return order, staying.new_ones(order.shape), order
    order = staying.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
    first = torch.arange(0, staying.numel(), staying.shape[1], device=order.device).unsqueeze(1)
    return order, staying.gather(1, order), order + first


def _lost(lost: Tensor, exists: Tensor, staying: Tensor, order: Tensor) -> Tensor:
    """What is lost between the positions that stay: what was, and the existence of those that leave."""
    so_far = (lost + exists.detach() * ~staying).cumsum(1).gather(1, order)
    return torch.diff(so_far, dim=1, prepend=torch.zeros_like(so_far[:, :1]))


def checked_lengths(inputs: Tensor, mask: Tensor, width: int | None = None) -> list[int]:
    """The number of tokens in each sequence, after making sure that the batch can be encoded.

    This is the one look at the data before the recursion; it costs one synchronisation with the device.
    """
    if inputs.dim() != 3 or mask.shape != inputs.shape[:2] or mask.dtype != torch.bool:
        raise InputError(
            f"an encoder takes inputs [batch, tokens, width] and a bool mask [batch, tokens]; "
            f"got {list(inputs.shape)} and {mask.dtype} {list(mask.shape)}"
        )
    if width is not None and inputs.shape[2] != width:
        raise InputError(
            f"the inputs are {inputs.shape[2]} numbers wide, but the encoder was built for {width}"
        )
    if inputs.shape[0] == 0 or inputs.shape[1] == 0:
        raise InputError(f"the batch is empty: inputs have the shape {list(inputs.shape)}")
    if inputs.is_meta:  # shapes only: nothing to look at
        return [inputs.shape[1]] * inputs.shape[0]
    gap = (mask[:, 1:] & ~mask[:, :-1]).any(1)
    bad = (~inputs.isfinite()).any(2) & mask  # what stands under padding does not matter
    facts = torch.stack([mask.sum(1), gap.long(), bad.any(1).long(), bad.long().argmax(1)]).tolist()
    for row, (length, has_gap, has_bad, position) in enumerate(zip(*facts, strict=True)):
        if length == 0:
            raise InputError(f"sequence {row} of the batch is empty: every position of its mask is padding")
        if has_gap:
            raise InputError(
                f"sequence {row} of the batch has padding before a token; padding goes on the right"
            )
        if has_bad:
            raise InputError(
                f"sequence {row} of the batch has NaN or infinity in its input, at token {position}"
            )
    lengths: list[int] = facts[0]
    return lengths
