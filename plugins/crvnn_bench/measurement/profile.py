"""Where the time of a training step goes: by slot, and by operation."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from crvnn_bench.measurement.timing import no_garbage_collection
from crvnn_bench.measurement.work import training_step
from crvnn_core import Batch, Model, Neighbourhood
from crvnn_core.host.slots import ENCODER_PARTS
from crvnn_core.inference.cost import part_of

_LABEL = "crvnn slot: "
_BACKWARD = "autograd::engine::evaluate_function"
#: Names for the time inside the encoder but in no slot, and for that outside of it.
ENGINE, REST = "engine", "embedding, head and loss"


@frozen
class Share:
    """The time of a slot or of an operation, in seconds per training step, and its calls."""

    name: str
    forward: float
    backward: float
    calls: float

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


@frozen
class Profile:
    """The time of a training step by slot and by operation, largest first."""

    slots: list[Share]
    operations: list[Share]
    seconds: float

    def plain(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "seconds": self.seconds,
            "slots": [_plain(share, self.seconds) for share in self.slots],
            "operations": [_plain(share, self.seconds) for share in self.operations],
        }


def _plain(share: Share, total: float) -> dict[str, Any]:
    found = {"name": share.name, "forward": share.forward, "backward": share.backward}
    return {**found, "seconds": share.seconds, "share": share.seconds / total, "calls": share.calls}


def profile_step(model: Model, batches: Sequence[Batch]) -> Profile:
    """The profile of one training step on every batch; the times include the profiler's own overhead."""
    training_step(model, batches[0])
    with (
        no_garbage_collection(),
        _labelled(model.encoder),
        profile(activities=[ProfilerActivity.CPU]) as profiler,
    ):
        for batch in batches:
            training_step(model, batch)
    events = [event for event in profiler.events() or [] if not event.is_async]
    slots, operations = _Sums(), _Sums()
    by_sequence = _forward_slots(events)
    for event in events:
        backward = _ancestor(event, _BACKWARD) is not None
        seconds = event.self_cpu_time_total / 1e6 / len(batches)
        slots.add(_slot(event, by_sequence), backward, seconds, event.name.startswith(_LABEL))
        if not event.name.startswith((_LABEL, "autograd::engine")):
            operations.add(event.name, backward, seconds, True)
    total = sum(share.seconds for share in slots.shares(len(batches)))
    return Profile(slots.shares(len(batches)), operations.shares(len(batches)), total)


class _Sums:
    """Sums of times by name."""

    def __init__(self) -> None:
        self.forward: dict[str, float] = defaultdict(float)
        self.backward: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def add(self, name: str, backward: bool, seconds: float, called: bool) -> None:
        (self.backward if backward else self.forward)[name] += seconds
        self.calls[name] += called

    def shares(self, steps: int) -> list[Share]:
        found = [
            Share(name, self.forward.get(name, 0.0), self.backward.get(name, 0.0), calls / steps)
            for name, calls in self.calls.items()
        ]
        return sorted(found, key=lambda share: -share.seconds)


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
    for name in ("left", "right", "window", "stacked"):
        setattr(near, name, _recorded(getattr(near, name)))
    return near


def _recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with record_function(_LABEL + "retriever"):
            return method(*args)

    return call


@contextlib.contextmanager
def _labelled(encoder: nn.Module) -> Iterator[None]:
    """A block in which every slot of the encoder marks its forward passes for the profiler."""
    handles = []
    running: list[Any] = []

    def enter(label: str) -> None:
        running.append(record_function(_LABEL + label))
        running[-1].__enter__()

    def leave(label: str, output: Any) -> Any:
        running.pop().__exit__(None, None, None)
        return _attributed(output) if label == "retriever" else output

    for slot in ("encoder", *ENCODER_PARTS):
        module = encoder if slot == "encoder" else part_of(encoder, slot)
        if module is not None:
            label = ENGINE if slot == "encoder" else slot
            handles.append(module.register_forward_pre_hook(lambda m, args, label=label: enter(label)))
            handles.append(
                module.register_forward_hook(lambda m, args, output, label=label: leave(label, output))
            )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
