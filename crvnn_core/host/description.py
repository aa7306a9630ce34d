"""Descriptions of components, presets, specs and models, from what is written; nothing is built."""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from attrs import evolve

from crvnn_core.annotations import ranges
from crvnn_core.errors import Problem, SpecError, UnknownNameError, nearest
from crvnn_core.host.attribution import Source
from crvnn_core.host.catalog import Catalog, Offer
from crvnn_core.host.component import Component
from crvnn_core.host.slots import find_slot
from crvnn_core.spec.layers import override
from crvnn_core.spec.reader import settings_of
from crvnn_core.spec.values import check_value
from crvnn_core.spec.values import describe as describe_kind


def describe(catalog: Catalog, slot: str, name: str) -> dict[str, Any]:
    """A component's parameters, docstring, contract and package as JSON-compatible data, for ``crvnn describe``."""
    from crvnn_core.testing import promise

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
                "kind": f"an {slot}" if key == inner else describe_kind(parameter.annotation),
                "limits": " and ".join(map(str, ranges(parameter.annotation))),
                "default": "the preset's" if key == inner else _default(parameter),
                "text": explained.get(key, ""),
            }
            for key, parameter in settings.items()
        ],
        "given": [key for key in offer.component.parameters() if key in find_slot(slot).filled_in],
        "contract": [promise(check) for check in find_slot(slot).load_checks()],
    }


def describe_preset(catalog: Catalog, name: str) -> dict[str, Any]:
    """A preset's settings as JSON-compatible data, for ``crvnn describe preset``."""
    preset = catalog.preset(name)
    return {
        "kind": "preset",
        "name": name,
        "summary": preset.summary,
        "package": str(catalog.presets[name][1]),
        "default": preset.default,
        "use": f"crvnn assemble --preset {name}",
        "model": dict(preset.model),
        "text": tomli_w.dumps({"model": dict(preset.model)}),
    }


def describe_spec(catalog: Catalog, name: str) -> dict[str, Any]:
    """A named spec's purpose, data and text as JSON-compatible data, for ``crvnn describe spec``."""
    spec, source = _offered("spec", name, catalog.specs)
    return {
        "kind": "spec",
        "name": name,
        "summary": spec.summary,
        "package": str(source),
        "path": spec.path,
        "data": spec.data,
        "duration": spec.duration,
        "use": f"crvnn train {name}",
        "text": Path(spec.path).read_text(encoding="utf-8"),
    }


def describe_model(catalog: Catalog, name: str) -> dict[str, Any]:
    """A trained model's spec, results and card as JSON-compatible data, for ``crvnn describe model``."""
    model, source = _offered("model", name, catalog.models)
    home = Path(model.path)
    card, results, spec = home / "MODEL.md", home / "results.json", home / "spec.toml"
    return {
        "kind": "model",
        "name": name,
        "summary": model.summary,
        "package": str(source),
        "path": model.path,
        "use": f"crvnn predict {name} TEXT",
        "spec": tomllib.loads(spec.read_text(encoding="utf-8")) if spec.exists() else None,
        "results": json.loads(results.read_text(encoding="utf-8")) if results.exists() else None,
        "text": card.read_text(encoding="utf-8") if card.exists() else "It has no MODEL.md.",
    }


_R = TypeVar("_R")


def _offered(what: str, name: str, known: Mapping[str, tuple[_R, Source]]) -> tuple[_R, Source]:
    if name not in known:
        raise UnknownNameError(
            f"no {what} is called '{name}'.{nearest(name, known)}\n'crvnn list {what}s' shows what is installed."
        )
    return known[name]


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
