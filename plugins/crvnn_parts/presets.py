"""The built-in presets; ``docs/explanation/presets.md`` has the source of each setting."""

from __future__ import annotations

from crvnn_core import Preset

PRESETS = (
    Preset(
        "paper",
        {
            "encoder": {
                "name": "crvnn",
                "boundaries": True,
                "halt_penalty": 0.01,
                "penalise": "all",
                "max_steps": 0,
                "extra_steps": 0,
            },
            "retriever": {"name": "adhoc"},
            "scorer": {"name": "window", "window": 5, "transition": 64, "activation": "gelu"},
            "decision": {"name": "modulated", "form": "paper"},
            "cell": {"name": "gated", "activation": "gelu", "shared_norm": False},
            "halting": {"name": "threshold", "epsilon": 0.01},
        },
        summary="the model as the paper's text describes it",
        default=True,
    ),
    Preset(
        "reference",
        {
            "encoder": {
                "name": "crvnn",
                "boundaries": True,
                "halt_penalty": 0.01,
                "penalise": "unhalted",
                "max_steps": 0,
                "extra_steps": 1,
            },
            "retriever": {"name": "adhoc"},
            "scorer": {"name": "window", "window": 5, "transition": 64, "activation": "gelu-tanh"},
            "decision": {"name": "modulated", "form": "reference"},
            "cell": {"name": "gated", "activation": "gelu-tanh", "shared_norm": True},
            "halting": {"name": "threshold", "epsilon": 0.01},
        },
        summary="the authors' published code, guards included, for each sequence as if it were alone in its batch",
    ),
    Preset(
        "simplified-2023",
        {
            "encoder": {
                "name": "crvnn",
                "boundaries": True,
                "halt_penalty": 0.0,
                "penalise": "all",
                "max_steps": 0,
                "extra_steps": 0,
            },
            "retriever": {"name": "adhoc"},
            "scorer": {"name": "window", "window": 5, "transition": 0, "activation": "gelu"},
            "decision": {"name": "modulated", "form": "bounded"},
            "cell": {"name": "gated", "activation": "gelu", "shared_norm": False},
            "halting": {"name": "threshold", "epsilon": 0.1},
        },
        summary="the first author's later simplification: no transition features, no halt penalty, earlier halting",
    ),
)
