"""Exchanging parts of a trained model that have no weights: its retriever, decision and halting, and settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from crvnn_core.errors import CrvnnError, Origin, Problem, UnknownNameError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import EXCHANGEABLE, SLOT_BY_NAME
from crvnn_core.inference.trained import Trained
from crvnn_core.interfaces import Encoder, Scheduled
from crvnn_core.runs.directory import SavedVocabulary
from crvnn_core.spec import RunSpec, spec_dict
from crvnn_core.spec.assembly import assemble
from crvnn_core.spec.layers import Layer, overrides
from crvnn_core.spec.resolve import resolve

#: What can be set anew: these, and the encoder's own settings.
SETTABLE = (*EXCHANGEABLE, "encoder")


def exchange_parts(
    trained: Trained, catalog: Catalog, parts: Mapping[str, str] | None = None, sets: Sequence[str] = ()
) -> Trained:
    """The same weights with another retriever, decision or halting, or with other settings of theirs.

    The result shares its tensors with ``trained``, which stays as it is: train neither of them afterwards.

    :param parts: component names by slot.
    :param sets: ``model.decision.end=0.3`` and the like; also of the encoder.
    """
    spec = exchanged_spec(trained.spec, catalog, parts or {}, sets)
    if spec == trained.spec:
        return trained
    old = trained.model
    saved = SavedVocabulary(
        (), tuple(trained.task.classes), old.embed.weight.shape[1]
    )  # only the encoder is kept
    model = assemble(spec, catalog, saved).model
    model.vocabulary, model.embed, model.tree_source = old.vocabulary, old.embed, old.tree_source
    model.project, model.head = old.project, old.head
    model.to(old.embed.weight.device)
    _share_weights(model.encoder, old.encoder, spec, trained.spec)
    return Trained(spec, trained.task, model.eval(), extraction=trained.extraction)


def exchanged_spec(
    spec: RunSpec, catalog: Catalog, parts: Mapping[str, str], sets: Sequence[str] = ()
) -> RunSpec:
    """A run's spec with other parts and settings; all problems with them are in one error."""
    for slot in parts:
        if slot not in EXCHANGEABLE:
            raise UnknownNameError(
                f"a trained model's '{slot}' cannot be exchanged.{nearest(slot, EXCHANGEABLE)} "
                f"What can: {', '.join(EXCHANGEABLE)}."
            )
    below = spec_dict(spec)
    below.pop("training", None)  # what trained it need not be here
    layers: list[Layer] = [(below, {}, Origin("the run's spec"))]
    layers += [
        ({"model": {slot: name}}, {}, Origin(f"--{slot} {name}", every_stage=True))
        for slot, name in parts.items()
    ]
    extra, problems = overrides(sets)
    problems += [problem for data, origin in extra for problem in _refused(data, origin)]
    layers += [(data, {}, origin) for data, origin in extra]
    return resolve(catalog, layers, problems=problems)


def _refused(data: dict[str, Any], origin: Origin) -> list[Problem]:
    """Why a setting cannot change once the weights are trained; nothing if it can."""
    model = data.get("model")
    ((slot, value),) = model.items() if isinstance(model, dict) else ((None, None),)
    if slot in EXCHANGEABLE or (slot == "encoder" and isinstance(value, dict) and "name" not in value):
        return []
    examples = ", ".join(f"model.{slot}.…" for slot in SETTABLE)
    return [origin.problem((), f"this cannot change under trained weights; what can: {examples}")]


def _share_weights(encoder: Encoder, old: Encoder, spec: RunSpec, before: RunSpec) -> None:
    """Assign the old encoder's tensors to the new one; schedules stand where training ended."""
    for module in encoder.modules():
        if isinstance(module, Scheduled):
            module.progress.fill_(1.0)
    weights = old.state_dict()
    for slot in EXCHANGEABLE:
        now = getattr(spec.model, slot).name
        if now != getattr(before.model, slot).name:
            weights = {name: tensor for name, tensor in weights.items() if not _is_of(slot, name)}
            fresh = [name for name, _ in encoder.named_parameters() if _is_of(slot, name)]
            if fresh:
                raise CrvnnError(
                    f"the {slot} '{now}' has weights of its own ({', '.join(fresh)}), which this run never "
                    "trained; train a run with it"
                )
    sizes = {name: (_size(weights.get(name)), _size(tensor)) for name, tensor in encoder.named_parameters()}
    sizes |= {
        name: (_size(tensor), _size(encoder.state_dict().get(name))) for name, tensor in weights.items()
    }
    problems = [f"{name}: {run} in the run, {now} here" for name, (run, now) in sizes.items() if run != now]
    if problems:
        raise CrvnnError("the run's weights do not fit these settings:\n  " + "\n  ".join(problems))
    encoder.load_state_dict(weights, strict=False, assign=True)


def _is_of(slot: str, name: str) -> bool:
    """Whether a tensor belongs to the component of a slot, of the encoder or of one inside it."""
    inner = SLOT_BY_NAME["encoder"].inner
    return re.match(rf"({inner}\.)*{slot}\.", name) is not None


def _size(tensor: torch.Tensor | None) -> str:
    return str(list(tensor.shape)) if tensor is not None else "absent"
