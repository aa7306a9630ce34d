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
    present: Tensor  # [B, N] bool: not padding
    tokens: Tensor  # [B, N] bool: a real token, so it may receive
    eligible: Tensor  # [B, N] bool: a real token but not the last, so it may be composed to the right
    rows: Tensor  # [B] place in the batch as it was given
    last: Tensor  # [B] position of the last token
    lengths: tuple[int, ...]  # tokens of each sequence, known on the host
    step: int = 0

    def advance(self, nodes: Tensor, exists: Tensor, gained: Tensor) -> State:
        """The state after one step."""
        return replace(self, nodes=nodes, exists=exists, gained=gained, step=self.step + 1)

    def select(self, chosen: list[int]) -> State:
        """Only these sequences, with positions that are now padding for all of them cut off."""
        lengths = tuple(self.lengths[i] for i in chosen)
        spare = max(self.lengths) - max(lengths)
        n = self.nodes.shape[1] - spare
        index = torch.tensor(chosen, device=self.nodes.device)

        def pick(tensor: Tensor) -> Tensor:
            return (tensor[:, :n] if tensor.dim() > 1 else tensor).index_select(0, index)

        return State(
            nodes=pick(self.nodes),
            exists=pick(self.exists),
            gained=pick(self.gained),
            present=pick(self.present),
            tokens=pick(self.tokens),
            eligible=pick(self.eligible),
            rows=pick(self.rows),
            last=pick(self.last),
            lengths=lengths,
            step=self.step,
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
