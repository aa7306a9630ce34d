"""The multiply-adds of a forward pass, counted by slot."""

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

#: Where operations outside every slot are counted.
UNATTRIBUTED = "rest"
_OVERHEAD = "overhead"  # of counting itself: attributed to no slot
_ELEMENTWISE = {
    torch.ops.aten.mul,
    torch.ops.aten.div,
    torch.ops.aten.addcmul,
    torch.ops.aten.lerp,
    torch.ops.aten.cumsum,
}


@frozen(eq=False)
class Cost:
    """Multiply-adds by slot, and the number of positions, summed over steps, that each slot was called on."""

    by_slot: Counter[str] = field(factory=Counter)
    positions: Counter[str] = field(factory=Counter)
    #: The slots whose forward is running, the innermost last; after an error, those in which it was raised.
    running: list[str] = field(factory=lambda: [UNATTRIBUTED])
    #: Slots that returned NaN or infinity, in the order of their calls.
    non_finite: list[str] = field(factory=list)

    def per_position(self, slot: str) -> float | None:
        """Multiply-adds of a slot per position and step; ``None`` if it never ran."""
        positions = self.positions["cell"] or self.positions["encoder"]
        return self.by_slot[slot] / positions if positions and slot in self.by_slot else None

    def enter(self, slot: str) -> None:
        """The forward of a slot begins."""
        self.running.append(slot)

    def leave(self, result: Any) -> None:
        """The forward of the innermost slot has returned ``result``."""
        slot = self.running.pop()
        self.by_slot[slot] += 0
        self.running.append(_OVERHEAD)
        if isinstance(result, Tensor) and result.is_floating_point() and not bool(result.isfinite().all()):
            self.non_finite.append(slot)
        self.running.pop()


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiply-adds of matrix products and of elementwise operations."""

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
    """Counts the operations of a neighbourhood for the retriever, whichever part calls it."""

    def __init__(self, near: Neighbourhood, cost: Cost) -> None:
        self.near, self.cost = near, cost

    def left(self, values: Tensor) -> Tensor:
        return self._counted(self.near.left, values)

    def right(self, values: Tensor) -> Tensor:
        return self._counted(self.near.right, values)

    def _counted(self, operator: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
        self.cost.enter("retriever")
        result = operator(values)
        self.cost.leave(result)
        return result


@contextmanager
def count_multiply_adds(
    encoder: nn.Module, slots: tuple[str, ...], cost: Cost | None = None
) -> Iterator[Cost]:
    """Count the encoder's multiply-adds inside the block, for each of ``slots`` that it has as an attribute."""
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
