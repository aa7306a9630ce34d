"""Faults that a component of any slot may have, for the tests of the contracts."""

import inspect

import torch
from torch import nn


def with_unused_parameter(kind):
    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unused = nn.Parameter(torch.zeros(3))

    return keeping_signature(Faulty, kind)


def with_unsaved_state(kind):
    """Multiplies the module's output by a random number that is not saved."""

    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.unsaved = torch.rand(())

        def forward(self, *args):
            return super().forward(*args) * self.unsaved

    return keeping_signature(Faulty, kind)


def with_live_setting(kind):
    """Declares a live setting that the module does not have."""
    return keeping_signature(type("Faulty", (kind,), {"live_settings": ("temprature",)}), kind)


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


def with_stale_weights(kind, method="forward"):
    """Scales a result of the module with a weight whose backward pass looks it up by its address in memory."""
    kept = {}

    def scaled(self, *args):
        result = getattr(kind, method)(self, *args)
        if isinstance(result, torch.Tensor):
            return _Scaled.apply(result, self.scale, kept)
        result.vector = _Scaled.apply(result.vector, self.scale, kept)
        return result

    class Faulty(kind):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = nn.Parameter(torch.ones(1))

    setattr(Faulty, method, scaled)
    return keeping_signature(Faulty, kind)


def keeping_signature(faulty, kind):
    faulty.__signature__ = inspect.signature(kind)
    return faulty


def nan_in_half_precision(result, *_):
    return result * torch.nan if torch.is_autocast_enabled("cpu") else result


def noisy(result, *_):
    return result + 1e-3 * torch.rand_like(result)


def on_the_cpu(result, *_):
    return result + torch.zeros(result.shape)
