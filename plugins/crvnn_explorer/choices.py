"""The components that the page lets one choose from, and their settings as plain data for its controls."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin

from crvnn_core import Catalog, CrvnnError
from crvnn_core.host.description import describe
from crvnn_core.host.manager import Offer
from crvnn_core.spec.resolve import settings_of

_KINDS = {bool: "flag", int: "whole", float: "number", str: "text"}
#: Settings that change weights, or nothing but training, or nothing but how long it takes.
_NOT_LIVE = {
    ("encoder", "crvnn"): {"boundaries", "halt_penalty", "penalise", "checkpoint"},
    ("decision", "tempered"): {"start", "schedule"},
    ("decision", "stretched"): {"noise"},
    ("retriever", "adhoc"): {"accumulate", "small"},
}
#: Settings whose names say too little without their spec around them.
_LABELS = {("decision", "tempered", "end"): "temperature (end)"}


def choices(catalog: Catalog, slot: str) -> list[dict[str, Any]]:
    """The components of a slot with their settings; those that cannot be imported are left out."""
    found = []
    for name, offer in catalog.components[slot].items():
        try:
            settings = _settings(catalog, offer)
        except CrvnnError:
            continue
        found.append({"name": name, "summary": offer.component.summary, "settings": settings})
    return found


def _settings(catalog: Catalog, offer: Offer) -> list[dict[str, Any]]:
    explained = {
        parameter["name"]: parameter["text"].replace("`", "")
        for parameter in describe(catalog, offer.slot, offer.component.name)["parameters"]
    }
    hidden = _NOT_LIVE.get((offer.slot, offer.component.name), set())
    return [
        {
            "name": name,
            "label": _LABELS.get((offer.slot, offer.component.name, name), name),
            "text": explained[name],
            **_kind(parameter),
        }
        for name, parameter in settings_of(offer).items()
        if name not in hidden and _kind(parameter)
    ]


def _kind(parameter: inspect.Parameter) -> dict[str, Any]:
    """What kind of control a setting needs; nothing for one that no control can show."""
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    if get_origin(parameter.annotation) is Literal:
        return {"kind": "choice", "choices": list(get_args(parameter.annotation)), "default": default}
    kind = _KINDS.get(parameter.annotation)
    return {"kind": kind, "default": default} if kind else {}
