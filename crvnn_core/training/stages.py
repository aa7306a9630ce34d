"""The stages of a run: the data of all, and what carries over from one to the next (weights, optimizer's state)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from crvnn_core.errors import CrvnnError, Origin
from crvnn_core.interfaces import Example, Task
from crvnn_core.runs.spec_file import flatten
from crvnn_core.spec import RunSpec, stage_summary
from crvnn_core.spec.assembly import Assembly
from crvnn_core.spec.layers import Layered
from crvnn_core.spec.stages import SHARED_SETTINGS
from crvnn_core.training.data import split_examples

#: Rows below which a development split is too small to choose weights by: one row is five points of accuracy.
FEWEST_ROWS = 20


def development_split(task: Task) -> str:
    """The name of a task's development split; empty if it has none."""
    return task.development if task.development in task.splits[1:] else ""


def data_notes(task: Task, epoch: Sequence[Sequence[Example]], batch: int) -> Iterator[str]:
    """What a user should know about small data: no development split or one of a few rows, one step an epoch.

    :param epoch: the batches of the current epoch.
    :param batch: the spec's size of them.
    """
    if len(epoch) == 1 and 1 < len(epoch[0]) < batch:
        yield (
            f"an epoch has {len(epoch[0])} rows, which are one step (training.batch={batch}); "
            "a smaller batch takes more steps"
        )
    split = development_split(task)
    if not split:
        yield "there is no development split: the last weights are kept, and nothing stops early"
        return
    rows = len(list(islice(split_examples(task, split, 0), FEWEST_ROWS)))
    if rows < FEWEST_ROWS:
        advice = task.development_advice or "give it more rows"
        yield (
            f"the development split has {rows} row{'s' * (rows != 1)}, too few to choose the best weights by "
            f"(one of them is {100 / max(rows, 1):.0f} points of accuracy): {advice}"
        )


def check_splits(stages: Sequence[Assembly], evaluated: Sequence[str]) -> None:
    """Look for the data of all stages and of the splits to evaluate at the end: what is missing is an error now."""
    later = [(stage.task, stage.task.splits[0]) for stage in stages[1:]]
    development = [(stage.task, development_split(stage.task)) for stage in stages]
    last = [(stages[-1].task, name) for name in evaluated]
    for task, split in dict.fromkeys([*later, *development, *last]):
        if split:
            next(split_examples(task, split, 0), None)


def fitted_weights(weights: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights of one stage for the model of another.

    Parameters are the same in all stages. Buffers need not be: those that the weights lack are the model's own.
    """
    return {
        name: weights[name] if name in weights and weights[name].shape == own.shape else own
        for name, own in model.state_dict().items()
    }


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
        layered.lay(
            {key: layer[key] for key in ("task", "model", "training") if key in layer}, {}, Origin("spec")
        )
    others = [".".join(path) for path in (*SHARED_SETTINGS, ("training", "save_every"))]
    return {key: value for key, value in flatten(layered.data).items() if key not in others}
