"""Weights of the authors' published encoder, in ours."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from crvnn_core.errors import CrvnnError

#: The authors' names, and where each tensor stands in an encoder of the ``reference`` preset.
NAMES = {
    "START": "start",
    "END": "end",
    "past_transition_features": "scorer.composed",
    "past_non_transition_features": "scorer.untouched",
    "conv_layer.weight": "scorer.convolution.weight",
    "conv_layer.bias": "scorer.convolution.bias",
    "scorer.weight": "scorer.score.weight",
    "scorer.bias": "scorer.score.bias",
    "initial_transform_layer.weight": "cell.leaf_map.weight",
    "initial_transform_layer.bias": "cell.leaf_map.bias",
    "wcell1.weight": "cell.expand.weight",
    "wcell1.bias": "cell.expand.bias",
    "wcell2.weight": "cell.gates.weight",
    "wcell2.bias": "cell.gates.bias",
    "LN.weight": "cell.norm.weight",
    "LN.bias": "cell.norm.bias",
}


def load_published_weights(encoder: nn.Module, state_dict: Mapping[str, Tensor]) -> None:
    """Copy the authors' weights into an encoder of the ``reference`` preset.

    Linear layers may be named as the authors' wrapper saves them (``scorer.linear.weight``) or plainly
    (``scorer.weight``). Missing, extra and wrongly shaped tensors are refused together, and nothing is changed.
    """
    given = {name.replace(".linear.", "."): tensor for name, tensor in state_dict.items()}
    ours = dict(encoder.named_parameters())
    unfit = sorted(set(ours) ^ set(NAMES.values()))
    if unfit:
        raise CrvnnError(
            "the published weights fit an encoder of the 'reference' preset; this one differs in "
            f'{", ".join(unfit)}. Build it with preset = "reference".'
        )
    problems = [f"missing: {name}" for name in NAMES if name not in given]
    problems += [f"not a tensor of the published encoder: {name}" for name in given if name not in NAMES]
    for name in given.keys() & NAMES.keys():
        want, got = list(ours[NAMES[name]].shape), list(given[name].shape)
        if want != got:
            problems.append(f"wrong shape: {name} is {got}, but this encoder needs {want}")
    if problems:
        raise CrvnnError(
            "these are not weights for this encoder:\n" + "\n".join(f"  {p}" for p in sorted(problems))
        )
    with torch.no_grad():
        for name, tensor in given.items():
            ours[NAMES[name]].copy_(tensor)
