"""The search space: the settings of a spec that are searched, and the values that each can have; read from tables."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from crvnn_core.errors import Origin, Path_, Problem, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME, slot_at
from crvnn_core.spec.layers import names_component

if TYPE_CHECKING:
    from optuna import Trial

#: The value of every searched setting by its name, as Optuna stores them.
Params = dict[str, Any]
#: Places in a spec, and the value at each.
Settings = list[tuple[Path_, Any]]
_KEYS = ("low", "high", "step", "log", "choices")


@frozen
class Range:
    """Numbers from ``low`` to ``high``."""

    name: str
    path: Path_
    low: float
    high: float
    #: The distance between two values; 0 for any.
    step: float = 0
    #: Search on a logarithmic scale.
    log: bool = False
    #: Integers only.
    integer: bool = False
    origin: Origin = field(default=Origin("sweep"), eq=False, repr=False)

    def suggest(self, trial: Trial) -> Params:
        """A value, chosen by the sampler."""
        if self.integer:
            whole = {"step": int(self.step)} if self.step else {}
            return {
                self.name: trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log, **whole)
            }
        step = self.step or None
        return {self.name: trial.suggest_float(self.name, self.low, self.high, log=self.log, step=step)}

    def values(self) -> list[float] | None:
        """Every value; ``None`` if there are too many to list."""
        step = self.step or (1 if self.integer and not self.log else 0)
        if not step:
            return None
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        found = [self.low + number * step for number in range(count)]
        return (
            [int(value) for value in found] if self.integer else [float(f"{value:.12g}") for value in found]
        )

    def grid(self) -> list[Params]:
        """Every value."""
        return [{self.name: value} for value in self.values() or ()]

    def settings(self, params: Params) -> Iterator[tuple[Path_, Any]]:
        """The settings of a spec that the values stand for."""
        yield self.path, params[self.name]

    def samples(self) -> list[Settings]:
        """Settings to check before the search: both ends."""
        return [[(self.path, self.low)], [(self.path, self.high)]]


@frozen
class Option:
    """One of several values: a number, a string, or a component with settings of its own, some of them searched."""

    label: Any
    value: Any
    inner: tuple[Range | Choice, ...] = ()
    #: Settings that have no effect with it: of an encoder, the parts that it does not take.
    without: frozenset[Path_] = frozenset()


@frozen
class Choice:
    """One of several values, each with a label that Optuna stores."""

    name: str
    path: Path_
    options: tuple[Option, ...]
    origin: Origin = field(default=Origin("sweep"), eq=False, repr=False)

    def suggest(self, trial: Trial) -> Params:
        """A value, chosen by the sampler, and those of the settings that only it has."""
        label = trial.suggest_categorical(self.name, [option.label for option in self.options])
        found = {self.name: label}
        for dimension in self.option(label).inner:
            found |= dimension.suggest(trial)
        return found

    def values(self) -> list[Any]:
        """The label of every value."""
        return [option.label for option in self.options]

    def grid(self) -> list[Params]:
        """Every value, with every combination of the settings that only it has."""
        return [
            {self.name: option.label, **params}
            for option in self.options
            for params in combined(option.inner)
        ]

    def settings(self, params: Params) -> Iterator[tuple[Path_, Any]]:
        """The settings of a spec that the values stand for."""
        option = self.option(params[self.name])
        yield self.path, option.value
        for dimension in option.inner:
            yield from dimension.settings(params)

    def samples(self) -> list[Settings]:
        """Settings to check before the search: every value, with some of the settings that only it has."""
        found = []
        for option in self.options:
            inner = [dimension.samples() for dimension in option.inner]
            for number in range(max(map(len, inner), default=1)):
                chosen = [each[min(number, len(each) - 1)] for each in inner]
                found.append([(self.path, option.value), *(pair for settings in chosen for pair in settings)])
        return found

    def option(self, label: Any) -> Option:
        """The value with this label."""
        return next(option for option in self.options if option.label == label)


Dimension = Range | Choice


def combined(dimensions: Sequence[Dimension]) -> Iterator[Params]:
    """Every combination of the values of several dimensions, without settings that have no effect: the grid."""
    known: set[tuple[Any, ...]] = set()
    for point in itertools.product(*(dimension.grid() for dimension in dimensions)):
        chosen = {name: value for params in point for name, value in params.items()}
        without = ineffective(dimensions, chosen)
        pairs = zip(dimensions, point, strict=True)
        kept = {
            name: value
            for dimension, params in pairs
            if dimension.path not in without
            for name, value in params.items()
        }
        key = tuple(kept.items())
        if key not in known:
            known.add(key)
            yield kept


def ineffective(dimensions: Sequence[Dimension], params: Params) -> set[Path_]:
    """The settings that have no effect with the values that were chosen so far."""
    choices = [each for each in dimensions if isinstance(each, Choice) and each.name in params]
    return {path for choice in choices for path in choice.option(params[choice.name]).without}


def suggest(dimensions: Sequence[Dimension], trial: Trial) -> Params:
    """A value of every setting that has an effect, chosen by the sampler."""

    def is_last(dimension: Dimension) -> bool:
        return not (isinstance(dimension, Choice) and any(option.without for option in dimension.options))

    found: Params = {}
    for dimension in sorted(dimensions, key=is_last):
        if dimension.path not in ineffective(dimensions, found):
            found |= dimension.suggest(trial)
    return found


def all_dimensions(dimensions: Sequence[Dimension]) -> Iterator[Dimension]:
    """The dimensions, and those that only one of their values has."""
    for dimension in dimensions:
        yield dimension
        if isinstance(dimension, Choice):
            for option in dimension.options:
                yield from all_dimensions(option.inner)


def layer(dimensions: Sequence[Dimension], params: Params) -> dict[str, Any]:
    """The settings that a trial lays over the spec, as nested tables."""
    without = ineffective(dimensions, params)
    kept = [dimension for dimension in dimensions if dimension.path not in without]
    return nested([pair for dimension in kept for pair in dimension.settings(params)])


def nested(settings: Settings) -> dict[str, Any]:
    """Settings as nested tables; a component comes before the settings that only it has."""
    tables: dict[str, Any] = {}
    for path, value in settings:
        into = tables
        for key in path[:-1]:
            into = into.setdefault(key, {})
        into[path[-1]] = dict(value) if isinstance(value, Mapping) else value
    return tables


def short_names(names: Sequence[str]) -> dict[str, str]:
    """For each dotted name as many of its last parts as make it unique: ``decision`` for ``model.decision``."""
    found = {}
    for name in names:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            short = ".".join(parts[-count:])
            if not any(other != name and f".{other}".endswith(f".{short}") for other in names):
                break
        found[name] = short
    return found


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
        if self.path == SLOT_BY_NAME["encoder"].path:
            options = [evolve(each, without=_parts_without_effect(each, self.catalog)) for each in options]
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
