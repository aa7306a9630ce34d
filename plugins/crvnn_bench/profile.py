"""Where the time of a training step goes: by slot, and by operation."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from crvnn_bench.contenders import Contender
from crvnn_bench.timing import no_garbage_collection
from crvnn_core import Batch, Neighbourhood
from crvnn_core.host.slots import ENCODER_PARTS
from crvnn_core.inference.cost import part_of

_LABEL = "crvnn slot: "
_BACKWARD = "autograd::engine::evaluate_function"
#: Names for the time inside the encoder but in no slot, and for that outside of it.
ENGINE, REST = "engine", "embedding, head and loss"


def profile_step(contender: Contender, batches: Sequence[Batch]) -> dict[str, Any]:
    """The seconds of one training step, and its ``slots`` and ``operations`` with their shares, largest first.

    The means over the batches; the times include the profiler's own overhead.
    """
    contender.perform(batches[0])
    with (
        no_garbage_collection(),
        _labelled(contender.model.encoder),
        profile(activities=[ProfilerActivity.CPU]) as profiler,
    ):
        for batch in batches:
            contender.perform(batch)
    events = [event for event in profiler.events() or [] if not event.is_async]
    slots: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    operations: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    by_sequence = _forward_slots(events)
    for event in events:
        way = "forward" if _ancestor(event, _BACKWARD) is None else "backward"
        seconds = event.self_cpu_time_total / 1e6 / len(batches)
        slot = slots[_slot(event, by_sequence)]
        slot[way] += seconds
        slot["calls"] += (1 if event.name.startswith(_LABEL) else 0) / len(batches)
        if not event.name.startswith((_LABEL, "autograd::engine")):
            operations[event.name][way] += seconds
            operations[event.name]["calls"] += 1 / len(batches)
    total = sum(times["forward"] + times["backward"] for times in slots.values())
    return {"seconds": total, "slots": _shares(slots, total), "operations": _shares(operations, total)}


def _shares(times: dict[str, dict[str, float]], total: float) -> list[dict[str, Any]]:
    """Name, times, calls and share of the total, the largest first."""
    found = []
    for name, own in times.items():
        seconds = own["forward"] + own["backward"]
        counted = {key: own[key] for key in ("forward", "backward", "calls")}
        found.append({"name": name, **counted, "seconds": seconds, "share": seconds / total})
    return sorted(found, key=lambda share: -share["seconds"])


def _forward_slots(events: Sequence[Any]) -> dict[int, str]:
    """The slot whose forward pass created each autograd node, by the node's sequence number.

    Several operations carry the same number: the last one created the node.
    """
    found: dict[int, tuple[float, str]] = {}
    for event in events:
        if event.sequence_nr >= 0 and _ancestor(event, _BACKWARD) is None:
            began = event.time_range.start
            if began >= found.get(event.sequence_nr, (-1.0, ""))[0]:
                found[event.sequence_nr] = (began, _slot(event, {}))
    return {number: slot for number, (_, slot) in found.items()}


def _slot(event: Any, by_sequence: dict[int, str]) -> str:
    """The innermost slot around an event; in the backward pass, that of the forward operation."""
    while event is not None:
        if event.name.startswith(_LABEL):
            return str(event.name.removeprefix(_LABEL))
        if event.name.startswith(_BACKWARD):
            return by_sequence.get(event.sequence_nr, ENGINE)
        event = event.cpu_parent
    return REST


def _ancestor(event: Any, name: str) -> Any:
    """The event itself or the innermost one around it whose name begins so; ``None`` if there is none."""
    while event is not None and not event.name.startswith(name):
        event = event.cpu_parent
    return event


def _attributed(near: Neighbourhood) -> Neighbourhood:
    """The same neighbourhood; calls of its methods count as the retriever's time, whoever calls."""

    def recorded(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with record_function(_LABEL + "retriever"):
                return method(*args)

        return call

    for name in ("left", "right", "window", "stacked"):
        setattr(near, name, recorded(getattr(near, name)))
    return near


@contextlib.contextmanager
def _labelled(encoder: nn.Module) -> Iterator[None]:
    """A block in which every slot of the encoder marks its forward passes for the profiler."""
    running: list[Any] = []

    def leave(label: str, output: Any) -> Any:
        running.pop().__exit__(None, None, None)
        return _attributed(output) if label == "retriever" else output

    def enter(label: str) -> None:
        running.append(record_function(_LABEL + label))
        running[-1].__enter__()

    modules = {ENGINE: encoder, **{slot: part_of(encoder, slot) for slot in ENCODER_PARTS}}
    with contextlib.ExitStack() as hooks:
        for label, module in modules.items():
            if module is not None:
                before = module.register_forward_pre_hook(lambda m, args, label=label: enter(label))
                after = module.register_forward_hook(
                    lambda m, args, output, label=label: leave(label, output)
                )
                hooks.callback(before.remove)
                hooks.callback(after.remove)
        yield
