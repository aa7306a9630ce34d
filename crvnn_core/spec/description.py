"""Components described, and given settings by hand; nothing is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from crvnn_core.annotations import check_value, described, ranges
from crvnn_core.errors import Problem, SpecError, nearest
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.component import Component
from crvnn_core.host.slots import find_slot
from crvnn_core.spec.layers import override
from crvnn_core.spec.reader import settings_of


def describe(catalog: Catalog, slot: str, name: str) -> dict[str, Any]:
    """A component's parameters, docstring and package as JSON-compatible data."""
    offer = catalog.find(slot, name)
    settings, inner = settings_of(offer), find_slot(slot).inner
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
                "kind": f"an {slot}" if key == inner else described(parameter.annotation),
                "limits": " and ".join(map(str, ranges(parameter.annotation))),
                "default": "the preset's" if key == inner else _default(parameter),
                "text": explained.get(key, ""),
            }
            for key, parameter in settings.items()
        ],
        "given": [key for key in offer.component.parameters() if key in find_slot(slot).filled_in],
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
    """A copy of the component whose example arguments include ``key=value`` texts; all problems in one error.

    A key is that of a spec, ``model.cell.hidden``, or the name of the parameter alone.
    """
    settings, problems = settings_of(offer), []
    example = dict(offer.component.example)
    place = ".".join(find_slot(offer.slot).path)
    for text in sets:
        (_, origin), (data, _) = override(text), override(text.removeprefix(f"{place}."))
        key, value = next(iter(data.items()))
        if key not in settings and isinstance(value, dict):
            what = f"only settings of the {offer.slot} can be set here, as {place}.{next(iter(settings), 'name')}"
            problems.append(origin.problem((), what))
            continue
        if key not in settings:
            title = f"{offer.slot} '{offer.component.name}' has no parameter '{key}'.{nearest(key, settings)}"
            problems.append(origin.problem((), title, f"It has {', '.join(settings) or 'none'}."))
            continue
        if key == find_slot(offer.slot).inner:
            what = f"the contract fills in a plain {offer.slot} for '{key}'; check another one by itself"
            problems.append(origin.problem((), what))
            continue
        try:
            example[key] = check_value(value, settings[key].annotation)
        except ValueError as error:
            problems.append(Problem(origin.label, str(error)))
    if problems:
        raise SpecError(problems)
    return evolve(offer.component, example=example)
