"""What a forward pass costs, slot by slot, in multiply-adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from crvnn_core.interfaces import Neighbourhood

_ELEMENTWISE = {
    torch.ops.aten.mul,
    torch.ops.aten.div,
    torch.ops.aten.addcmul,
    torch.ops.aten.lerp,
    torch.ops.aten.cumsum,
}


@frozen(eq=False)
class Cost:
    """Multiply-adds by slot, and how many positions, summed over steps, they were spent on."""

    by_slot: Counter[str] = field(factory=Counter)
    positions: Counter[str] = field(factory=Counter)

    def per_position(self, slot: str) -> float | None:
        """Multiply-adds of a slot for one position and step; ``None`` if it never ran."""
        positions = self.positions["cell"] or self.positions["encoder"]
        return self.by_slot[slot] / positions if positions and slot in self.by_slot else None


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts products: those of matrices, and those of single numbers."""

    def __init__(self, cost: Cost, stack: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cost, self.stack = cost, stack

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        if packet in flop_registry:
            self.cost.by_slot[self.stack[-1]] += (
                flop_registry[packet](*args, **(kwargs or {}), out_val=result) // 2
            )
        elif packet in _ELEMENTWISE and isinstance(result, Tensor):
            self.cost.by_slot[self.stack[-1]] += result.numel()
        return result


class _Attributed(Neighbourhood):
    """Books what a neighbourhood does under its retriever, whoever asks it."""

    def __init__(self, near: Neighbourhood, stack: list[str]) -> None:
        self.near, self.stack = near, stack

    def left(self, values: Tensor) -> Tensor:
        with _pushed(self.stack, "retriever"):
            return self.near.left(values)

    def right(self, values: Tensor) -> Tensor:
        with _pushed(self.stack, "retriever"):
            return self.near.right(values)


@contextmanager
def _pushed(stack: list[str], slot: str) -> Iterator[None]:
    stack.append(slot)
    try:
        yield
    finally:
        stack.pop()


@contextmanager
def counted(encoder: nn.Module, slots: tuple[str, ...]) -> Iterator[Cost]:
    """Count what the encoder does inside the block, by the slots it has as attributes."""
    cost, stack = Cost(), ["rest"]
    handles = []
    for slot in ("encoder", *slots):
        module = encoder if slot == "encoder" else getattr(encoder, slot, None)
        if not isinstance(module, nn.Module):
            continue

        def enter(module: nn.Module, args: Any, kwargs: Any, slot: str = slot) -> None:
            stack.append(slot)
            if slot in ("cell", "encoder"):
                cost.positions[slot] += (*args, *kwargs.values())[0].shape[:-1].numel()

        def leave(module: nn.Module, args: Any, output: Any, slot: str = slot) -> Any:
            stack.pop()
            cost.by_slot[slot] += 0
            return _Attributed(output, stack) if isinstance(output, Neighbourhood) else output

        handles += [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(leave),
        ]
    try:
        with _Counting(cost, stack):
            yield cost
    finally:
        for handle in handles:
            handle.remove()
