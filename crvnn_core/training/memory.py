"""When memory runs out."""

from __future__ import annotations

import gc

import torch


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, on whatever device."""
    told = str(error)
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("can't allocate memory" in told or "out of memory" in told)
    )


def free() -> None:
    """Give back what can be given back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
