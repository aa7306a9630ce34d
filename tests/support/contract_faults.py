"""Faults that a component of any slot may have, for the tests of the contracts."""

import inspect

import torch
from torch import nn

from crvnn_core import Encoding, Neighbourhood


class _Altered(Neighbourhood):
    """A neighbourhood whose results are altered."""

    def __init__(self, near, alter):
        self.near, self.alter = near, alter

    def left(self, values):
        return self.alter(self.near.left(values))

    def right(self, values):
        return self.alter(self.near.right(values))


def _alter(result, alter):
    if isinstance(result, Neighbourhood):
        return _Altered(result, alter)
    if isinstance(result, Encoding):
        result.vector = alter(result.vector)
        return result
    return alter(result)


def altered(kind, alter):
    """A module whose results are altered: a tensor, a neighbourhood's two sides, or an encoding's vectors."""

    class Faulty(kind):
        def forward(self, *args, **options):
            return _alter(super().forward(*args, **options), alter)

    return _keeping_signature(Faulty, kind)


def _with_unused_parameter(kind):
    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unused = nn.Parameter(torch.zeros(3))

    return _keeping_signature(Faulty, kind)


def _with_unsaved_state(kind):
    """Multiplies the module's output by a random number that is not saved."""

    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unsaved = torch.rand(())

        def forward(self, *args, **options):
            return _alter(super().forward(*args, **options), lambda values: values * self.unsaved)

    return _keeping_signature(Faulty, kind)


def _with_live_setting(kind):
    """Declares a live setting that the module does not have."""
    return _keeping_signature(type("Faulty", (kind,), {"live_settings": ("temprature",)}), kind)


class _Scaled(torch.autograd.Function):
    """Values times a weight; the backward pass multiplies by what was kept for the weight's memory."""

    @staticmethod
    def forward(ctx, values, weight, kept):
        ctx.save_for_backward(values)
        ctx.factor = kept.setdefault(weight.data_ptr(), weight.detach().clone())
        return values * weight

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, (gradient * ctx.saved_tensors[0]).sum().view(1), None


def _with_stale_weights(kind):
    """Scales the module's output with a weight whose backward pass looks it up by its address in memory."""
    kept = {}

    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, *args, **options):
            scaled = super().forward(*args, **options)
            return _alter(scaled, lambda values: _Scaled.apply(values, self.scale, kept))

    return _keeping_signature(Faulty, kind)


def _keeping_signature(faulty, kind):
    faulty.__signature__ = inspect.signature(kind)
    return faulty


def _altering(alter):
    return lambda kind: altered(kind, alter)


def on_the_cpu(result):
    return result + torch.zeros(result.shape, dtype=result.dtype)


#: A check that several slots share, without the slot in its name; a fault of any module; a part of the reason given.
SHARED = [
    ("learns", _with_unused_parameter, "no gradient reaches the parameter 'unused'"),
    (
        "treats_each_sequence_alone",
        _altering(lambda result: result + result.mean()),
        "of sequence 0, in a batch and",
    ),
    (
        "ignores_positions_that_are_gone",
        _altering(lambda result: result * (1 - 1 / result.shape[1])),
        "without the positions that have e = 0, which still count",
    ),
    ("has_gradients_of_its_present_weights", _with_stale_weights, "while graphs of earlier weights live"),
    ("runs_on_any_device", _altering(on_the_cpu), "fails on the meta device"),
    (
        "works_under_autocast",
        _altering(lambda result: result * torch.nan if torch.is_autocast_enabled("cpu") else result),
        "",
    ),
    (
        "is_deterministic",
        _altering(lambda result: result + 1e-3 * torch.rand(result.shape)),
        "call 2 with the same input",
    ),
    ("can_be_saved", _with_unsaved_state, "state that is not saved"),
    ("has_its_live_settings", _with_live_setting, "live_settings has temprature"),
]
