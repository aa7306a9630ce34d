"""What the engine makes sure of before it trusts a batch or the result of a part."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from crvnn_core.errors import ContractError, CrvnnError, InputError
from crvnn_core.interfaces import Neighbourhood
from crvnn_core.precision import autocasting


def checked_lengths(
    inputs: Tensor, mask: Tensor, width: int | None = None, dtype: torch.dtype | None = None
) -> list[int]:
    """The number of tokens in each sequence, after making sure that the batch can be encoded.

    It looks at the data once before the recursion, which costs one synchronisation with the device.

    :param width: of the inputs.
    :param dtype: of the encoder's weights, which is that of the inputs unless autocast is at work.
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
    if not inputs.is_floating_point():
        raise InputError(f"an encoder takes inputs of floating-point numbers, not of {inputs.dtype}")
    if dtype is not None and inputs.dtype != dtype and not autocasting(inputs.device.type):
        raise InputError(
            f"the inputs are {inputs.dtype} and the encoder's weights {dtype}; convert one: inputs.to({dtype}), or "
            f"encoder.to({inputs.dtype})"
        )
    if inputs.shape[0] == 0 or inputs.shape[1] == 0:
        raise InputError(f"the batch is empty: inputs have the shape {list(inputs.shape)}")
    if torch.compiler.is_exporting():
        raise CrvnnError(
            "it reads the lengths of sequences from the data ('checked_lengths'), which a graph cannot"
        )
    if inputs.is_meta:  # shapes only
        return [inputs.shape[1]] * inputs.shape[0]
    gap = (mask[:, 1:] & ~mask[:, :-1]).any(1)
    bad = ~(inputs.abs() <= _largest(inputs.dtype)).all(2) & mask  # values under padding do not matter
    facts = torch.stack([mask.sum(1), gap.long(), bad.any(1).long(), bad.long().argmax(1)]).tolist()
    for row, (length, has_gap, has_bad, position) in enumerate(zip(*facts, strict=True)):
        if length == 0:
            raise InputError(f"sequence {row} of the batch is empty: every position of its mask is padding")
        if has_gap:
            raise InputError(
                f"sequence {row} of the batch has padding before a token; padding goes on the right"
            )
        if has_bad and inputs[row, position].isfinite().all():
            raise InputError(
                f"sequence {row} of the batch has a value beyond {_largest(inputs.dtype):.0e} in its input, at token "
                f"{position}: its square would overflow. Scale the inputs; those of a trained embedding are below 100."
            )
        if has_bad:
            raise InputError(
                f"sequence {row} of the batch has NaN or infinity in its input, at token {position}"
            )
    lengths: list[int] = facts[0]
    return lengths


def as_mask(mask: Tensor) -> Tensor:
    """An integer mask, of ones at tokens and zeros at padding, as a boolean one; any other as it is."""
    mask = torch.as_tensor(mask)  # of a list or an array
    if mask.dtype == torch.bool or mask.is_floating_point():
        return mask
    if not mask.is_meta and not ((mask == 0) | (mask == 1)).all():
        raise InputError("an integer mask is 1 at tokens and 0 at padding; it has other values")
    return mask.bool()


def _largest(dtype: torch.dtype) -> float:
    """The largest magnitude of inputs: sums of a million squares of it are finite, at least in 32 bits."""
    largest = torch.finfo(dtype).max
    return largest if largest < 1e6 else 1e-3 * math.sqrt(largest)


def expect_finite(found: Tensor) -> None:
    """Refuse vectors [B, ...] or logits of a model's answers that have NaN or infinity."""
    bad = int((~found.isfinite()).flatten(1).any(1).sum())
    if bad:
        raise InputError(
            f"the model computed NaN or infinity for {bad} of {len(found)} texts, so it has no answer for them. "
            "Were its weights trained stably, and are its vectors of tokens and its settings of a usual size?"
        )


def expect_shape(part: nn.Module, role: str, got: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse what is not a tensor of this shape; the last word of ``role`` is the slot."""
    if not isinstance(got, Tensor):
        fault = f"a {type(got).__name__}, not a tensor"
    elif got.shape != shape:
        fault = f"the shape {list(got.shape)}; {list(shape)} was expected"
    else:
        return
    raise ContractError(f"{role} {type(part).__name__} returned {fault}", role.split()[-1])


def checked_halting(
    part: nn.Module, found: Any, sequences: int, state: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """What a halting returned: which sequences have not halted [B], and its next state if it had one before."""
    if state:
        if not isinstance(found, tuple) or len(found) != 2:
            raise ContractError(
                f"halting {type(part).__name__} returned a {type(found).__name__}; a stateful one must return two "
                "tensors: which sequences are active, and the next state",
                "halting",
            )
        found, after = found
        expect_shape(part, "state of halting", after, state[0].shape)
        state = (after.detach().to(state[0].dtype),)
    expect_shape(part, "halting", found, (sequences,))
    if found.dtype != torch.bool:
        raise ContractError(
            f"halting {type(part).__name__} returned {found.dtype}; it must return bools", "halting"
        )
    return found, state


def expect_neighbourhood(part: nn.Module, got: Neighbourhood) -> Neighbourhood:
    """Refuse what a retriever returned if that is no neighbourhood."""
    if not isinstance(got, Neighbourhood):
        fault = f"{type(part).__name__} returned a {type(got).__name__}, not a Neighbourhood"
        raise ContractError(f"retriever {fault}", "retriever")
    return got
