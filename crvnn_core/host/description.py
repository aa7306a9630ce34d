"""Descriptions of components, from their signatures, docstrings and contracts; nothing is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from crvnn_core.errors import Problem, SpecError, nearest
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.component import Component
from crvnn_core.host.slots import find_slot
from crvnn_core.spec.layers import override
from crvnn_core.spec.resolve import settings_of
from crvnn_core.spec.values import check_value
from crvnn_core.spec.values import describe as describe_kind


def describe(catalog: Catalog, slot: str, name: str) -> dict[str, Any]:
    """A component's parameters, docstring, contract and package as JSON-compatible data, for ``crvnn describe``."""
    from crvnn_core.testing import promise

    offer = catalog.find(slot, name)
    settings = settings_of(offer)
    build = offer.component.load()
    text, explained = _docstring(build)
    return {
        "slot": slot,
        "name": name,
        "summary": offer.component.summary,
        "package": str(offer.source),
        "plugin": offer.source.plugin,
        "build": f"{build.__module__}.{build.__qualname__}"
        if hasattr(build, "__qualname__")
        else repr(build),
        "text": text,
        "parameters": [
            {
                "name": key,
                "kind": describe_kind(parameter.annotation),
                "default": _default(parameter),
                "text": explained.get(key, ""),
            }
            for key, parameter in settings.items()
        ],
        "given": [key for key in offer.component.parameters() if key in find_slot(slot).filled_in],
        "contract": [promise(check) for check in find_slot(slot).load_checks()],
    }


def _default(parameter: inspect.Parameter) -> str:
    if isinstance(parameter.default, bool):
        return str(parameter.default).lower()
    if parameter.default is not inspect.Parameter.empty:
        return repr(parameter.default)
    return "needed"


def _docstring(build: object) -> tuple[str, dict[str, str]]:
    """The body of a docstring, and the texts of its ``:param name:`` fields by name."""
    text = inspect.getdoc(build) or ""
    body, *fields = re.split(r"^:(?=param |return)", text, flags=re.MULTILINE)
    explained = {}
    for item in fields:
        if match := re.match(r"param (\w+):\s*(.*)", item, re.DOTALL):
            explained[match[1]] = " ".join(match[2].split())
    return body.strip(), explained


def with_parameters(offer: Offer, sets: Sequence[str]) -> Component:
    """A copy of the component whose example arguments include ``parameter=value`` texts; all problems in one error."""
    settings, problems = settings_of(offer), []
    example = dict(offer.component.example)
    for text in sets:
        data, origin = override(text)
        key, value = next(iter(data.items()))
        if key not in settings:
            title = f"{offer.slot} '{offer.component.name}' has no parameter '{key}'.{nearest(key, settings)}"
            problems.append(origin.problem((), title, f"It has {', '.join(settings) or 'none'}."))
            continue
        try:
            example[key] = check_value(value, settings[key].annotation)
        except ValueError as error:
            problems.append(Problem(origin.label, str(error)))
    if problems:
        raise SpecError(problems)
    return evolve(offer.component, example=example)
