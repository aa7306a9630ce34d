"""The search space: the settings of a spec that are searched, and the values that each can have; read from tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import field, frozen

from crvnn_core.errors import Origin, Path_, SpecError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME, slot_at
from crvnn_core.spec.layers import encoder_parameters, names_component

if TYPE_CHECKING:
    from optuna import Trial

#: The value of every searched setting by its name, as Optuna stores them.
Params = dict[str, Any]
_KEYS = ("low", "high", "step", "log", "choices")


@frozen
class Range:
    """Numbers from ``low`` to ``high``; integers if all its numbers are."""

    name: str
    path: Path_
    low: float
    high: float
    #: The distance between two values; 0 for any.
    step: float = 0
    #: Search on a logarithmic scale.
    log: bool = False
    origin: Origin = field(default=Origin("sweep"), eq=False, repr=False)

    @property
    def integer(self) -> bool:
        """Whether its values are integers."""
        return all(isinstance(value, int) for value in (self.low, self.high, self.step))

    def suggest(self, trial: Trial) -> Any:
        """A value, chosen by the sampler."""
        if self.integer:
            step = int(self.step) or 1
            return trial.suggest_int(self.name, int(self.low), int(self.high), step=step, log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, step=self.step or None, log=self.log)

    def values(self) -> list[Any] | None:
        """Every value; ``None`` if there are too many to list."""
        step = self.step or (1 if self.integer and not self.log else 0)
        if not step:
            return None
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        found = [self.low + number * step for number in range(count)]
        return found if self.integer else [float(f"{value:.12g}") for value in found]


@frozen
class Option:
    """One of several values: a number, a string, or a component with settings of its own, some of them searched."""

    label: Any
    value: Any
    inner: tuple[Dimension, ...] = ()
    #: Settings that have no effect with it: of an encoder, the parts that it does not take.
    without: frozenset[Path_] = frozenset()


@frozen
class Choice:
    """One of several values, each with a label that Optuna stores."""

    name: str
    path: Path_
    options: tuple[Option, ...]
    origin: Origin = field(default=Origin("sweep"), eq=False, repr=False)

    def suggest(self, trial: Trial) -> Any:
        """The label of a value, chosen by the sampler."""
        return trial.suggest_categorical(self.name, self.values())

    def values(self) -> list[Any]:
        """The label of every value."""
        return [option.label for option in self.options]

    def option(self, label: Any) -> Option:
        """The value with this label."""
        return next(option for option in self.options if option.label == label)


Dimension = Range | Choice


def in_effect(dimensions: Sequence[Dimension], params: Params) -> Iterator[Dimension]:
    """The dimensions that have an effect with the values chosen so far; a choice is followed by those it brings."""
    chosen = {
        each.name: each.option(params[each.name])
        for each in dimensions
        if isinstance(each, Choice) and each.name in params
    }
    without = {path for option in chosen.values() for path in option.without}
    for dimension in dimensions:
        if dimension.path not in without:
            yield dimension
            if dimension.name in chosen:
                yield from in_effect(chosen[dimension.name].inner, params)


def _following(dimensions: Sequence[Dimension], params: Params) -> Dimension | None:
    """The next dimension to get a value: first the choices on which it depends which others have an effect."""
    missing = [each for each in in_effect(dimensions, params) if each.name not in params]
    deciding = (each for each in missing if isinstance(each, Choice) and any(o.without for o in each.options))
    return next(deciding, missing[0] if missing else None)


def combined(dimensions: Sequence[Dimension], params: Params | None = None) -> Iterator[Params]:
    """Every combination of the values of several dimensions, without settings that have no effect: the grid."""
    params = params or {}
    following = _following(dimensions, params)
    if following is None:
        yield params
        return
    for value in following.values() or ():
        yield from combined(dimensions, {**params, following.name: value})


def suggest(dimensions: Sequence[Dimension], trial: Trial) -> Params:
    """A value of every setting that has an effect, chosen by the sampler."""
    found: Params = {}
    while (following := _following(dimensions, found)) is not None:
        found[following.name] = following.suggest(trial)
    return found


def samples(dimension: Dimension) -> Iterator[Params]:
    """What to check before the search: both ends of a range; every choice, with some values of what it brings."""
    if isinstance(dimension, Range):
        yield {dimension.name: dimension.low}
        yield {dimension.name: dimension.high}
        return
    for option in dimension.options:
        inner = [list(samples(each)) for each in option.inner]
        for number in range(max(map(len, inner), default=1)):
            found = {dimension.name: option.label}
            for each in inner:
                found |= each[min(number, len(each) - 1)]
            yield found


def all_dimensions(dimensions: Sequence[Dimension]) -> Iterator[Dimension]:
    """The dimensions, and those that only one of their values has."""
    for dimension in dimensions:
        yield dimension
        if isinstance(dimension, Choice):
            for option in dimension.options:
                yield from all_dimensions(option.inner)


def layer(dimensions: Sequence[Dimension], params: Params) -> dict[str, Any]:
    """The settings that a trial lays over the spec, as nested tables."""
    tables: dict[str, Any] = {}
    for dimension in in_effect(dimensions, params):
        if dimension.name not in params:
            continue
        value = params[dimension.name]
        if isinstance(dimension, Choice):
            value = dimension.option(value).value
        into = tables
        for key in dimension.path[:-1]:
            into = into.setdefault(key, {})
        into[dimension.path[-1]] = dict(value) if isinstance(value, Mapping) else value
    return tables


def short_names(names: Sequence[str]) -> dict[str, str]:
    """For each dotted name as many of its last parts as make it unique: ``decision`` for ``model.decision``."""
    found = {}
    for name in names:
        parts = name.split(".")
        endings = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = [f".{other}" for other in names if other != name]
        unique = (each for each in endings if not any(other.endswith(f".{each}") for other in others))
        found[name] = next(unique, name)
    return found


def read_dimension(path: Path_, raw: Any, origin: Origin, catalog: Catalog, name: str = "") -> Dimension:
    """One searched setting; ``SpecError`` if it cannot be.

    :param name: what Optuna calls it; by default the path with dots.
    """
    return _Reader(path, origin, catalog, name or ".".join(path)).read(raw)


@frozen
class _Reader:
    path: Path_
    origin: Origin
    catalog: Catalog
    name: str

    def fail(self, what: str, advice: str = "") -> NoReturn:
        place = ("sweep", "space", ".".join(self.path))
        raise SpecError([self.origin.problem(place, what, advice)])

    @property
    def is_component(self) -> bool:
        return names_component(self.path[2:] if self.path[0] == "stages" else self.path)

    def read(self, raw: Any) -> Dimension:
        if raw == "all":
            slot = slot_at(self.path)
            if slot is None or not self.is_component:
                self.fail('only components can be "all"; list the values')
            raw = list(self.catalog.components[slot.name])
        if _is_search(raw):
            for key in raw:
                if key not in _KEYS:
                    self.fail(f"a range has no '{key}'.{nearest(key, _KEYS)}", f"It has {', '.join(_KEYS)}.")
            return self.choice(raw["choices"]) if "choices" in raw else self.range(raw)
        if not isinstance(raw, list):
            advice = '"all" stands for every installed component.' if self.is_component else ""
            self.fail(f"must be a list of values, or a table with low and high, not {raw!r}", advice)
        return self.choice(raw)

    def range(self, raw: Mapping[str, Any]) -> Range:
        for key in ("low", "high", *raw.keys() & {"step"}):
            if key not in raw:
                self.fail(f"needs '{key}', a number")
            if isinstance(raw[key], bool) or not isinstance(raw[key], (int, float)):
                self.fail(f"{key} must be a number, not {raw[key]!r}")
        low, high, step, log = raw["low"], raw["high"], raw.get("step", 0), raw.get("log", False)
        if not isinstance(log, bool):
            self.fail(f"log must be true or false, not {log!r}")
        if not low < high:
            self.fail(f"low must be less than high, not {low} and {high}")
        if step < 0:
            self.fail(f"step must be above 0, not {step}")
        if log and low <= 0:
            self.fail(f"low must be above 0 on a logarithmic scale, not {low}")
        if log and step:
            self.fail("a range has either a step or a logarithmic scale")
        return Range(self.name, self.path, low, high, step, log, self.origin)

    def choice(self, values: Any) -> Choice:
        if not isinstance(values, list) or not values:
            self.fail(f"needs a list of one value or more, not {values!r}")
        names = [value["name"] for value in values if isinstance(value, Mapping) and "name" in value]
        options = tuple(self.option(value, names) for value in values)
        labels = [repr(option.label) for option in options]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            self.fail(f"lists {', '.join(twice)} twice")
        inner = [dimension.name for option in options for dimension in option.inner]
        if len(set(inner)) < len(inner):
            self.fail("a component whose settings are searched can be listed once only")
        return Choice(self.name, self.path, options, self.origin)

    def option(self, value: Any, names: Sequence[str]) -> Option:
        """One of several values.

        :param names: of all components that are listed with settings; those of one name are labelled by their settings.
        """
        if not isinstance(value, Mapping):
            plain = isinstance(value, (str, int, float, bool))
            return Option(value if plain else json.dumps(value), value, without=self.without(value))
        name = value.get("name")
        if not self.is_component or not isinstance(name, str):
            self.fail(f"a table among the choices must name a component, as in {{name = ...}}; got {value!r}")
        inner = tuple(
            read_dimension((*self.path, key), setting, self.origin, self.catalog, f"{self.name}.{name}.{key}")
            for key, setting in value.items()
            if _is_search(setting)
        )
        fixed = {key: setting for key, setting in value.items() if not _is_search(setting)}
        shown = ", ".join(f"{key}={setting}" for key, setting in fixed.items() if key != "name")
        label = f"{name} ({shown})" if shown and names.count(name) > 1 else name
        return Option(label, fixed, inner, self.without(name))

    def without(self, name: Any) -> frozenset[Path_]:
        """Where the parts stand that an encoder does not take, if this is one."""
        slot = SLOT_BY_NAME["encoder"]
        taken = encoder_parameters(self.catalog, name) if self.path == slot.path else None
        if taken is None or slot.inner in taken:  # the encoder inside it may take any part
            return frozenset()
        return frozenset(SLOT_BY_NAME[part].path for part in ENCODER_PARTS if part not in taken)


def _is_search(setting: Any) -> bool:
    return isinstance(setting, Mapping) and bool(setting.keys() & set(_KEYS))
