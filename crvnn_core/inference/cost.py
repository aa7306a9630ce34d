"""What a forward pass costs, slot by slot, in multiply-adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
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
    #: The slots at work, the innermost last; after an error, those in which it happened.
    running: list[str] = field(factory=lambda: ["rest"])
    #: Slots that gave NaN or infinity, in the order in which they did.
    strange: list[str] = field(factory=list)

    def per_position(self, slot: str) -> float | None:
        """Multiply-adds of a slot for one position and step; ``None`` if it never ran."""
        positions = self.positions["cell"] or self.positions["encoder"]
        return self.by_slot[slot] / positions if positions and slot in self.by_slot else None

    def enter(self, slot: str) -> None:
        """A slot begins to work."""
        self.running.append(slot)

    def leave(self, result: Any) -> None:
        """The innermost slot is done."""
        slot = self.running.pop()
        self.by_slot[slot] += 0
        self.running.append("the books")  # looking at the result is nobody's cost
        if isinstance(result, Tensor) and result.is_floating_point() and not bool(result.isfinite().all()):
            self.strange.append(slot)
        self.running.pop()


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts products: those of matrices, and those of single numbers."""

    def __init__(self, cost: Cost) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cost = cost

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet, slot = func.overloadpacket, self.cost.running[-1]
        if packet in flop_registry:
            self.cost.by_slot[slot] += flop_registry[packet](*args, **(kwargs or {}), out_val=result) // 2
        elif packet in _ELEMENTWISE and isinstance(result, Tensor):
            self.cost.by_slot[slot] += result.numel()
        return result


class _Attributed(Neighbourhood):
    """Books what a neighbourhood does under its retriever, whoever asks it."""

    def __init__(self, near: Neighbourhood, cost: Cost) -> None:
        self.near, self.cost = near, cost

    def left(self, values: Tensor) -> Tensor:
        return self._booked(self.near.left, values)

    def right(self, values: Tensor) -> Tensor:
        return self._booked(self.near.right, values)

    def _booked(self, look: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
        self.cost.enter("retriever")
        result = look(values)
        self.cost.leave(result)
        return result


@contextmanager
def counted(encoder: nn.Module, slots: tuple[str, ...], cost: Cost | None = None) -> Iterator[Cost]:
    """Count what the encoder does inside the block, by the slots it has as attributes."""
    cost = Cost() if cost is None else cost
    handles = []
    for slot in ("encoder", *slots):
        module = encoder if slot == "encoder" else getattr(encoder, slot, None)
        if not isinstance(module, nn.Module):
            continue

        def enter(module: nn.Module, args: Any, kwargs: Any, slot: str = slot, cost: Cost = cost) -> None:
            cost.enter(slot)
            if slot in ("cell", "encoder"):
                cost.positions[slot] += (*args, *kwargs.values())[0].shape[:-1].numel()

        def leave(module: nn.Module, args: Any, output: Any, cost: Cost = cost) -> Any:
            cost.leave(output)
            return _Attributed(output, cost) if isinstance(output, Neighbourhood) else output

        handles += [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(leave),
        ]
    try:
        with _Counting(cost):
            yield cost
    finally:
        for handle in handles:
            handle.remove()
