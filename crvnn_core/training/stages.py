"""The stages of a run: the optimizer's state, which carries over from one to the next, and what resuming may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from crvnn_core.errors import CrvnnError, Origin
from crvnn_core.runs.directory import flatten
from crvnn_core.spec import RunSpec, stage_summary
from crvnn_core.spec.assembly import Assembly
from crvnn_core.spec.layers import Layered
from crvnn_core.spec.stages import SHARED_SETTINGS


def carry_optimizer_state(before: Assembly, old: Optimizer, after: Assembly, new: Optimizer) -> bool:
    """Give the optimizer of a stage the state of the last stage's, but its own learning rate and other settings.

    :return: whether that was done: only if both have the same name and train the same parameters.
    """
    if before.spec.training.optimizer.name != after.spec.training.optimizer.name:
        return False
    if _trained(before.model) != _trained(after.model):
        return False
    settings = [{key: group[key] for key in new.defaults if key in group} for group in new.param_groups]
    new.load_state_dict(old.state_dict())
    for group, own in zip(new.param_groups, settings, strict=True):
        group.update(own)
    return True


def _trained(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def announcement(spec: RunSpec, number: int, optimizer_kept: bool = True) -> str:
    """``stage 2 of 3 'long': task.max_tokens=100, training.steps=2000``, for stage ``number`` from 0."""
    name = f" '{spec.stages[number].name}'" if spec.stages[number].name else ""
    optimizer = "" if optimizer_kept else "; the optimizer begins without state"
    return f"stage {number + 1} of {len(spec.stages)}{name}: {stage_summary(spec, number)}{optimizer}"


def check_ended_stages(old: Mapping[str, Any], new: Mapping[str, Any], ended: int) -> None:
    """An error if the settings of a stage that has ended are not the same in two specs, as plain tables."""
    changed: dict[str, None] = {}
    numbers = []
    for number in range(ended):
        before, now = (_trained_with(tables, number) for tables in (old, new))
        keys = [key for key in before.keys() & now.keys() if before[key] != now[key]]
        changed |= dict.fromkeys(sorted(keys))
        numbers += [str(number + 1)] if keys else []
    if changed:
        here = ", ".join(f"stages.{ended + 1}.{key}" for key in changed)
        raise CrvnnError(
            f"stage {' and '.join(numbers)} of this run has ended, so its settings cannot change; "
            f"the run is in stage {ended + 1}, where you can set {here}"
        )


def _trained_with(tables: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The settings that the result of a stage depends on, by their keys in the spec."""
    layered = Layered()
    for layer in (tables, tables["stages"][number]):
        layered.merge(
            {key: layer[key] for key in ("task", "model", "training") if key in layer}, {}, Origin("spec")
        )
    others = [".".join(path) for path in (*SHARED_SETTINGS, ("training", "save_every"))]
    return {key: value for key, value in flatten(layered.data).items() if key not in others}
