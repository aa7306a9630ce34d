"""Hypothesis strategies for the inputs of components."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

_TINY = st.floats(0, 2**-13, width=32)
_NEAR_ONE = st.floats(1 - 2**-10, 1, width=32)
_ANY = st.floats(0, 1, width=32)
_BINARY = st.sampled_from([0.0, 1.0])


@st.composite
def existences(
    draw: st.DrawFn, max_length: int = 40, max_batch: int = 3, dtype: torch.dtype = torch.float32
) -> Tensor:
    """[B, n] existential probabilities: binary, tiny, near one, anything, or all of these mixed."""
    element = draw(
        st.sampled_from([_BINARY, _TINY, _NEAR_ONE, _ANY, st.one_of(_BINARY, _TINY, _NEAR_ONE, _ANY)])
    )
    n = draw(st.integers(1, max_length))
    batch = draw(st.integers(1, max_batch))
    rows = draw(st.lists(st.lists(element, min_size=n, max_size=n), min_size=batch, max_size=batch))
    return torch.tensor(rows, dtype=dtype)


@st.composite
def masks(draw: st.DrawFn, max_length: int = 12, max_batch: int = 4) -> Tensor:
    """[B, n] bool, with at least one token in each sequence and padding on the right."""
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=max_batch))
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


@st.composite
def values(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers of a shape, from a drawn seed."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return torch.randn(shape, generator=generator, dtype=dtype)


@st.composite
def compositions(draw: st.DrawFn, max_length: int = 9) -> tuple[int, list[list[int]]]:
    """A number of tokens, and a valid order of composing them: positions of each step, no two of them neighbours."""
    n = draw(st.integers(2, max_length))
    there, order = list(range(n)), []
    while len(there) > 1:
        chosen: list[int] = []
        for place in range(len(there) - 1):
            free = not chosen or chosen[-1] != there[place - 1]
            if free and draw(st.booleans()):
                chosen.append(there[place])
        if not chosen:
            chosen = [there[0]]
        order.append(chosen)
        there = [position for position in there if position not in chosen]
    return n, order
