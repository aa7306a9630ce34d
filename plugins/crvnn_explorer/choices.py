"""The components that the page offers, and their live settings as plain data for its controls."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin

from crvnn_core import Catalog, CrvnnError, InputError
from crvnn_core.annotations import bare, ranges
from crvnn_core.host.catalog import Offer
from crvnn_core.spec import ModelSpec
from crvnn_core.spec.description import describe
from crvnn_core.spec.reader import settings_of

_KINDS = {bool: "flag", int: "whole", float: "number", str: "text"}


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


def expect_offered(
    catalog: Catalog,
    model: ModelSpec,
    parts: Mapping[str, str],
    settings: Iterable[tuple[str, str, Any]],
) -> None:
    """Refuse settings that components do not declare live; those that do not exist are left to ``exchange_parts``."""
    for slot, key, _ in settings:
        part = getattr(model, slot, None)
        offer = catalog.components.get(slot, {}).get(parts.get(slot, getattr(part, "name", "")))
        if offer is None or key not in settings_of(offer):
            continue
        live = getattr(offer.component.load(), "live_settings", None)
        if live is not None and key not in live:
            can = f"those that can: {', '.join(live)}" if live else "none of its settings can"
            raise InputError(
                f"'{key}' of {slot} '{offer.component.name}' cannot change after training; {can}"
            )


def _settings(catalog: Catalog, offer: Offer) -> list[dict[str, Any]]:
    explained = {
        parameter["name"]: parameter["text"].replace("`", "")
        for parameter in describe(catalog, offer.slot, offer.component.name)["parameters"]
    }
    live = getattr(offer.component.load(), "live_settings", None)
    return [
        {"name": name, "text": explained[name], **_kind(parameter)}
        for name, parameter in settings_of(offer).items()
        if (live is None or name in live) and _kind(parameter)
    ]


def _kind(parameter: inspect.Parameter) -> dict[str, Any]:
    """The kind of control that a setting needs; nothing for one that no control can show."""
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    annotation = bare(parameter.annotation)
    if get_origin(annotation) is Literal:
        return {"kind": "choice", "choices": list(get_args(annotation)), "default": default}
    kind = _KINDS.get(annotation)
    return {"kind": kind, "default": default, **_limits(parameter.annotation)} if kind else {}


def _limits(annotation: Any) -> dict[str, Any]:
    """The range of a number: ``min`` and ``max``, whether these are excluded (``open``), and whether it is odd."""
    found: dict[str, Any] = {}
    for each in ranges(annotation):
        for key, excluded, included in (("min", each.gt, each.ge), ("max", each.lt, each.le)):
            if excluded is not None or included is not None:
                found[key] = included if excluded is None else excluded
            if excluded is not None:
                found.setdefault("open", []).append(key)
        if each.odd:
            found["odd"] = True
    return found
