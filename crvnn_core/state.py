"""The state of a recursion: nodes, existence, and the masks that say what each position may do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crvnn_core.errors import InputError


@dataclass(eq=False)
class State:
    """B sequences that are still going on, over N positions: START, tokens, END, padding."""

    nodes: Tensor  # [B, N, s] states of the cell
    exists: Tensor  # [B, N] existential probabilities e
    gained: Tensor  # [B, N] left(c) of the last step: how far the position is a new parent
    lost: Tensor  # [B, N] existence of positions that have left, between this one and the one before
    present: Tensor  # [B, N] bool: not padding
    tokens: Tensor  # [B, N] bool: a real token, so it may receive
    eligible: Tensor  # [B, N] bool: a real token but not the last, so it may be composed to the right
    place: Tensor  # [B, N] which token of its sequence it is, from 0
    rows: Tensor  # [B] place in the batch as it was given
    last: Tensor  # [B] position of the last token
    lengths: tuple[int, ...]  # tokens of each sequence, known on the host
    step: int = 0

    def advance(self, nodes: Tensor, exists: Tensor, gained: Tensor) -> State:
        """The state after one step."""
        return replace(self, nodes=nodes, exists=exists, gained=gained, step=self.step + 1)

    def survivors(self, tolerance: float) -> Tensor:
        """Which positions must stay [B, N]: START, END, last tokens, and what exists.

        With a tolerance, positions leave as long as between two that stay no more than this is lost of existence,
        earlier losses counted. (It is spent in two halves: one for the position next to a survivor, one for those
        that fall into the same portion of the running total.)
        """
        if not tolerance:
            return self.present & ~(self.eligible & (self.exists == 0))
        half = tolerance / 2
        exists = self.exists.detach().double()
        small = self.eligible & (exists + self.lost <= half)
        portion = ((exists * small + self.lost).cumsum(1) / half).floor()
        alike = torch.zeros_like(small)
        alike[:, :-1] = portion[:, 1:] == portion[:, :-1]
        return self.present & ~(small & alike)

    def narrow(self, chosen: list[int], staying: Tensor, size: int) -> State:
        """Only these sequences, and of each only the positions that stay: at most ``size`` of them."""
        batch, n, s = self.nodes.shape
        index = torch.tensor(chosen, device=self.nodes.device)
        staying = staying.index_select(0, index)
        order = staying.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
        present = staying.gather(1, order)
        flat = (order + index.unsqueeze(1) * n).flatten()

        def pick(tensor: Tensor) -> Tensor:
            return tensor.reshape(batch * n).index_select(0, flat).view_as(order)

        last = self.last.index_select(0, index)
        leaving = ~staying
        gone = self.lost.index_select(0, index) + self.exists.detach().index_select(0, index) * leaving
        total = gone.cumsum(1).gather(1, order)
        lost = torch.diff(total, dim=1, prepend=torch.zeros_like(total[:, :1])) * present
        return replace(
            self,
            nodes=self.nodes.reshape(batch * n, s).index_select(0, flat).view(*order.shape, s),
            exists=pick(self.exists) * present,
            gained=pick(self.gained) * present,
            lost=lost,
            present=present,
            tokens=pick(self.tokens) & present,
            eligible=pick(self.eligible) & present,
            place=pick(self.place),
            rows=self.rows.index_select(0, index),
            last=last - leaving.cumsum(1).gather(1, last.unsqueeze(1)).squeeze(1),
            lengths=tuple(self.lengths[i] for i in chosen),
        )


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
