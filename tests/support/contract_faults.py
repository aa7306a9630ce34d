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


def keeping_signature(faulty, kind):
    faulty.__signature__ = inspect.signature(kind)
    return faulty


def nan_in_half_precision(result, *_):
    return result * torch.nan if torch.is_autocast_enabled("cpu") else result


def noisy(result, *_):
    return result + 1e-3 * torch.rand_like(result)


def on_the_cpu(result, *_):
    return result + torch.zeros(result.shape)
