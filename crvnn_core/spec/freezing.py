"""Which weights of a model are trained: those whose names begin as the spec says."""

from __future__ import annotations

from torch import nn

from crvnn_core.errors import Problem, nearest
from crvnn_core.spec.schema import RunSpec


def freeze_untrained(spec: RunSpec, model: nn.Module | None) -> list[Problem]:
    """Freeze all weights but those that ``training.trained`` names; a problem if it names none."""
    name = spec.training.trained
    if not name or model is None:
        return []
    parameters = dict(model.named_parameters())
    chosen = [own for own in parameters if f"{own}.".startswith(f"{name}.")]
    if not any(parameters[own].requires_grad for own in chosen):
        known = _modules(model)
        what = "these weights are not trained anyway" if chosen else f"no weights are called '{name}'"
        advice = f"{nearest(name, known)} There are {', '.join(known)}.".strip()
        return [Problem("[training] trained", what, advice=advice)]
    for own, parameter in parameters.items():
        if own not in chosen:
            parameter.requires_grad_(False)
    return []


def _modules(model: nn.Module) -> list[str]:
    """The parts of a model and of its encoder that have weights."""
    return sorted(
        {
            ".".join(own.split(".")[:2]) if own.startswith("encoder.") else own.split(".")[0]
            for own, _ in model.named_parameters()
        }
    )
