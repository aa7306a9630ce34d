"""The multiply-adds of a forward pass, counted by slot.

Operations are counted as torch runs them. Those of compiled code cannot be seen, so torch computes the same products
instead. Only of the retriever the compiled neighbourhood is used, which says what it costs: it is linear in the length
where torch, for short sequences, multiplies matrices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.flop_counter import flop_registry

from crvnn_core.host.slots import SLOT_BY_NAME
from crvnn_core.interfaces import Neighbourhood

#: Where operations outside every slot are counted.
UNATTRIBUTED = "rest"
#: The slots whose inputs say how many positions there are; the first that ran counts.
_POSITIONS = ("scorer", "cell", "encoder")
_OVERHEAD = "overhead"  # of counting itself: attributed to no slot
_ELEMENTWISE = {
    torch.ops.aten.mul,
    torch.ops.aten.div,
    torch.ops.aten.addcmul,
    torch.ops.aten.lerp,
    torch.ops.aten.cumsum,
}
#: Sums and differences, which are most of what a retriever does to find the neighbours.
_SUMS = {torch.ops.aten.add, torch.ops.aten.sub, torch.ops.aten.rsub, torch.ops.aten.sum}
_BAGS = {torch.ops.aten._embedding_bag, torch.ops.aten._embedding_bag_forward_only}


@frozen(eq=False)
class Cost:
    """Multiply-adds by slot, and the number of positions, padding included, summed over steps, of each slot."""

    by_slot: Counter[str] = field(factory=Counter)
    positions: Counter[str] = field(factory=Counter)
    #: The slots whose forward is running, the innermost last; after an error, those in which it was raised.
    running: list[str] = field(factory=lambda: [UNATTRIBUTED])
    #: Slots that returned NaN or infinity, in the order of their calls.
    non_finite: list[str] = field(factory=list)

    def per_position(self, slot: str) -> float | None:
        """Multiply-adds of a slot per position and step; ``None`` if it never ran."""
        positions = next((self.positions[each] for each in _POSITIONS if self.positions[each]), 0)
        return self.by_slot[slot] / positions if positions and slot in self.by_slot else None

    def add(self, number: int) -> None:
        """Count multiply-adds for the innermost slot."""
        self.by_slot[self.running[-1]] += number

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
        packet = _in_new_memory(func.overloadpacket)
        if packet in flop_registry:
            self.cost.add(flop_registry[packet](*args, **(kwargs or {}), out_val=result) // 2)
        elif packet in _ELEMENTWISE and isinstance(result, Tensor):
            self.cost.add(result.numel())
        elif packet in _SUMS and self.cost.running[-1] == "retriever" and args[0].is_floating_point():
            self.cost.add(args[0].numel() if packet is torch.ops.aten.sum else result.numel())
        elif packet in _BAGS:
            table, rows = args[:2]
            self.cost.add(rows.numel() * table.shape[1])
        return result


@cache
def _in_new_memory(packet: Any) -> Any:
    """An operation, or of one that works in place (``mul_``) the one that does the same in new memory (``mul``)."""
    return getattr(torch.ops.aten, packet.__name__.rstrip("_"), packet)


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
        known = self.near.multiply_adds(values)
        if known is None:
            result = operator(values)
        else:
            self.cost.add(known)
            with _disable_current_modes():
                result = operator(values)
        self.cost.leave(result)
        return result


def part_of(encoder: nn.Module, slot: str) -> nn.Module | None:
    """The part of a slot that an encoder, or an encoder inside it, has as an attribute."""
    found, inner = (getattr(encoder, name, None) for name in (slot, SLOT_BY_NAME["encoder"].inner))
    if isinstance(found, nn.Module):
        return found
    return part_of(inner, slot) if isinstance(inner, nn.Module) else None


@contextmanager
def count_multiply_adds(
    encoder: nn.Module, slots: tuple[str, ...], cost: Cost | None = None
) -> Iterator[Cost]:
    """Count the encoder's multiply-adds inside the block, for each of ``slots`` that it has as an attribute."""
    cost = Cost() if cost is None else cost
    handles = []
    begun: dict[str, int] = {}  # the count of each slot when its forward began
    for slot in ("encoder", *slots):
        module = encoder if slot == "encoder" else part_of(encoder, slot)
        if module is None:
            continue

        def enter(module: nn.Module, args: Any, kwargs: Any, slot: str = slot) -> None:
            cost.enter(slot)
            begun[slot] = cost.by_slot[slot]
            if slot in _POSITIONS:
                cost.positions[slot] += (*args, *kwargs.values())[0].shape[:-1].numel()

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any, slot: str = slot) -> Any:
            cost.leave(output)
            if not isinstance(output, Neighbourhood):
                return output
            with _disable_current_modes():  # compiled code serves again
                used = module.forward(*args, **kwargs)
            exists = (*args, *kwargs.values())[0]
            if used.multiply_adds(exists) is None:
                return _Attributed(output, cost)
            cost.by_slot[slot] = begun[slot] + exists.numel()  # prefix sums, in place of what torch did
            return _Attributed(used, cost)

        handles += [
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(leave, with_kwargs=True),
        ]
    try:
        with _Counting(cost):
            yield cost
    finally:
        for handle in handles:
            handle.remove()
