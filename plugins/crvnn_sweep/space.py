"""The search space: the settings of a spec that are searched, and the values that each can have."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from crvnn_core.errors import Origin, Path_

if TYPE_CHECKING:
    from optuna import Trial

#: The value of every searched setting by its name, as Optuna stores them.
Params = dict[str, Any]
#: Places in a spec, and the value at each.
Settings = list[tuple[Path_, Any]]


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
    #: Whole numbers only.
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
    """One of several values: a number, a text, or a component with settings of its own, some of them searched."""

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
