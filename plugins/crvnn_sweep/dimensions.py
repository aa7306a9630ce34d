"""Reading one searched setting of ``[sweep.space]``: a list of values, a range, or every installed component."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from crvnn_core.errors import Origin, Path_, Problem, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME, slot_at
from crvnn_core.spec.layers import names_component
from crvnn_sweep.space import Choice, Dimension, Option, Range

_ENCODER = SLOT_BY_NAME["encoder"].path
_KEYS = ("low", "high", "step", "log", "choices")


def read_dimension(
    path: Path_, raw: Any, origin: Origin, catalog: Catalog, problems: list[Problem], name: str = ""
) -> Dimension | None:
    """One searched setting; problems are added to the list, and then there may be none.

    :param name: what Optuna calls it; by default the path with dots.
    """
    return _Reader(path, origin, catalog, problems, name or ".".join(path)).read(raw)


class _Reader:
    def __init__(
        self, path: Path_, origin: Origin, catalog: Catalog, problems: list[Problem], name: str
    ) -> None:
        self.path, self.origin, self.catalog, self.problems, self.name = path, origin, catalog, problems, name
        self.is_component = names_component(path[2:] if path[0] == "stages" else path)

    def complain(self, what: str, advice: str = "") -> None:
        self.problems.append(self.origin.problem(("sweep", "space", ".".join(self.path)), what, advice))

    def read(self, raw: Any) -> Dimension | None:
        if raw == "all":
            return self._all()
        if isinstance(raw, Mapping) and raw.keys() & set(_KEYS):
            unknown = [key for key in raw if key not in _KEYS]
            for key in unknown:
                self.complain(f"a range has no '{key}'.{nearest(key, _KEYS)}", f"It has {', '.join(_KEYS)}.")
            if unknown:
                return None
            return self._choice(raw["choices"]) if "choices" in raw else self._range(raw)
        if isinstance(raw, list):
            return self._choice(raw)
        what = f"must be a list of values, or a table with low and high, not {raw!r}"
        self.complain(what, '"all" stands for every installed component.' if self.is_component else "")
        return None

    def _all(self) -> Dimension | None:
        slot = slot_at(self.path)
        if slot is None or not self.is_component:
            self.complain('only components can be "all"; list the values')
            return None
        return self._choice(list(self.catalog.components[slot.name]))

    def _range(self, raw: Mapping[str, Any]) -> Range | None:
        log = raw.get("log", False)
        before = len(self.problems)
        low, high, step = self._number(raw, "low"), self._number(raw, "high"), self._number(raw, "step", 0)
        if not isinstance(log, bool):
            self.complain(f"log must be true or false, not {log!r}")
        if len(self.problems) > before:
            return None
        if not low < high:
            self.complain(f"low must be less than high, not {low} and {high}")
        if step < 0:
            self.complain(f"step must be above 0, not {step}")
        if log and low <= 0:
            self.complain(f"low must be above 0 on a logarithmic scale, not {low}")
        if log and step:
            self.complain("a range has either a step or a logarithmic scale")
        if len(self.problems) > before:
            return None
        integer = all(isinstance(value, int) for value in (low, high, step))
        return Range(self.name, self.path, low, high, step, log, integer, self.origin)

    def _number(self, raw: Mapping[str, Any], key: str, default: float | None = None) -> float:
        value = raw.get(key, default)
        if value is None:
            self.complain(f"needs '{key}', a number")
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            self.complain(f"{key} must be a number, not {value!r}")
        else:
            return value
        return 0

    def _choice(self, values: Any) -> Choice | None:
        if not isinstance(values, list) or len(values) < 1:
            self.complain(f"needs a list of one value or more, not {values!r}")
            return None
        options = [option for value in values if (option := self._option(value)) is not None]
        options = _with_unique_labels(options)
        if self.path == _ENCODER:
            options = [
                attrs.evolve(option, without=_parts_without_effect(option, self.catalog))
                for option in options
            ]
        labels = [repr(option.label) for option in options]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            self.complain(f"lists {', '.join(twice)} twice")
        inner = [dimension.name for option in options for dimension in option.inner]
        if len(set(inner)) < len(inner):
            self.complain("a component whose settings are searched can be listed once only")
        return Choice(self.name, self.path, tuple(options), self.origin)

    def _option(self, value: Any) -> Option | None:
        if not isinstance(value, Mapping):
            plain = isinstance(value, (str, int, float, bool))
            return Option(value if plain else json.dumps(value), value)
        if not self.is_component or not isinstance(value.get("name"), str):
            self.complain(
                f"a table among the choices must name a component, as in {{name = ...}}; got {value!r}"
            )
            return None
        fixed: dict[str, Any] = {}
        inner: list[Dimension] = []
        for key, setting in value.items():
            if isinstance(setting, Mapping) and setting.keys() & set(_KEYS):
                name = f"{self.name}.{value['name']}.{key}"
                found = read_dimension(
                    (*self.path, key), setting, self.origin, self.catalog, self.problems, name
                )
                inner += [found] if found is not None else []
            else:
                fixed[key] = setting
        return Option(value["name"], fixed, tuple(inner))


def _parts_without_effect(option: Option, catalog: Catalog) -> frozenset[Path_]:
    """The places of the parts that an encoder does not take."""
    name = option.value["name"] if isinstance(option.value, Mapping) else option.value
    offer = catalog.components["encoder"].get(name)
    if offer is None:  # reported when the values are tried
        return frozenset()
    taken = offer.component.parameters()
    if SLOT_BY_NAME["encoder"].inner in taken:  # the encoder inside it may take any part
        return frozenset()
    return frozenset(SLOT_BY_NAME[slot].path for slot in ENCODER_PARTS if slot not in taken)


def _with_unique_labels(options: Sequence[Option]) -> list[Option]:
    """Choices of one component are told apart by their settings."""
    labels = [option.label for option in options]
    found = []
    for option in options:
        if labels.count(option.label) > 1 and isinstance(option.value, Mapping):
            settings = {key: value for key, value in option.value.items() if key != "name"}
            shown = ", ".join(f"{key}={value}" for key, value in settings.items())
            option = Option(
                f"{option.label} ({shown})" if shown else option.label, option.value, option.inner
            )
        found.append(option)
    return found
