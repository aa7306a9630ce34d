"""Faults that a component of any slot may have, for the tests of the contracts."""

import inspect
from functools import partial

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


def altered(kind, alter=lambda self, result: result, **attributes):
    """A module with more attributes, whose results are altered: a tensor, both sides of a neighbourhood, or vectors.

    :param alter: takes the module and a result.
    :param attributes: functions that build them.
    """

    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            for name, build in attributes.items():
                setattr(self, name, build())

        def forward(self, *args, **options):
            result = super().forward(*args, **options)
            if isinstance(result, Neighbourhood):
                return _Altered(result, partial(alter, self))
            if isinstance(result, Encoding):
                result.vector = alter(self, result.vector)
                return result
            return alter(self, result)

    Faulty.__signature__ = inspect.signature(kind)
    return Faulty


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
    return altered(
        kind,
        lambda self, result: _Scaled.apply(result, self.scale, kept),
        scale=lambda: nn.Parameter(torch.ones(1)),
    )


def _with_live_setting(kind):
    """Declares a live setting that the module does not have."""
    faulty = altered(kind)
    faulty.live_settings = ("temprature",)
    return faulty


def _altering(alter, **attributes):
    return lambda kind: altered(kind, alter, **attributes)


#: A check that several slots share, without the slot in its name; a fault of any module; a part of the reason given.
SHARED = [
    (
        "learns",
        _altering(lambda self, result: result, unused=lambda: nn.Parameter(torch.zeros(3))),
        "no gradient reaches the parameter 'unused'",
    ),
    (
        "treats_each_sequence_alone",
        _altering(lambda self, result: result + result.mean()),
        "of sequence 0, in a batch and",
    ),
    (
        "ignores_positions_that_are_gone",
        _altering(lambda self, result: result * (1 - 1 / result.shape[1])),
        "without the positions that have e = 0, which still count",
    ),
    ("has_gradients_of_its_present_weights", _with_stale_weights, "while graphs of earlier weights live"),
    (
        "runs_on_any_device",
        _altering(lambda self, result: result + torch.zeros(result.shape, dtype=result.dtype)),
        "fails on the meta device",
    ),
    (
        "works_under_autocast",
        _altering(lambda self, result: result * torch.nan if torch.is_autocast_enabled("cpu") else result),
        "",
    ),
    (
        "is_deterministic",
        _altering(lambda self, result: result + 1e-3 * torch.rand(result.shape)),
        "call 2 with the same input",
    ),
    (
        "can_be_saved",
        _altering(lambda self, result: result * self.unsaved, unsaved=lambda: torch.rand(())),
        "state that is not saved",
    ),
    ("has_its_live_settings", _with_live_setting, "live_settings has temprature"),
]
