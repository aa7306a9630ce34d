"""The table ``[sweep]`` of a spec: what is searched, how, and how long. Problems name the line they stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from crvnn_core.annotations import Range
from crvnn_core.errors import Origin, Path_, Problem, SpecError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, spec_dict
from crvnn_core.spec.layers import Layer, overrides
from crvnn_core.spec.resolve import resolve
from crvnn_core.spec.schema import one_of
from crvnn_core.spec.values import check_value
from crvnn_experiments.space import (
    Choice,
    Dimension,
    Settings,
    all_dimensions,
    combined,
    nested,
    read_dimension,
)

_KINDS = {"int": int, "str": str}
_FORMS = 'a list of values, a table with "low" and "high", or "all" for every installed component'


@frozen(kw_only=True)
class Sweep:
    """What is searched, how, and how long."""

    #: How settings are chosen: ``grid`` (every combination), ``tpe`` (near the best so far) or ``random``. By default
    #: ``grid`` if no number of trials is given, otherwise ``tpe``.
    sampler: str = field(default="", validator=one_of("", "grid", "tpe", "random"))
    #: How many combinations are tried; a grid has as many as there are.
    trials: int = field(default=0, validator=Range(ge=0))
    #: Runs of each trial, from the spec's seed upwards; their mean counts.
    seeds: int = field(default=1, validator=Range(ge=1))
    #: What is searched for on the development split: the highest ``accuracy`` or the lowest ``loss``.
    metric: str = field(default="accuracy", validator=one_of("accuracy", "loss"))
    #: Which trials are ended early: ``none``; those below the ``median`` of the others at the same step; or all but the
    #: best third of those that came so far, at steps that triple (successive ``halving``).
    pruner: str = field(default="none", validator=one_of("none", "median", "halving"))
    #: Seed of the sampler.
    seed: int = field(default=0, validator=Range(ge=0, le=2**31 - 1))
    #: How often a trial is continued whose process was killed.
    retries: int = field(default=3, validator=Range(ge=0))
    #: The settings that are searched, as they stand in the spec.
    space: Mapping[str, Any] = field(factory=dict)
    dimensions: tuple[Dimension, ...] = field(default=(), eq=False, repr=False)

    @property
    def maximised(self) -> bool:
        """Whether more of the metric is better."""
        return self.metric == "accuracy"

    def plain(self) -> dict[str, Any]:
        """The table, complete, for TOML and JSON."""
        return {a.name: getattr(self, a.name) for a in attrs.fields(Sweep) if a.name != "dimensions"}


def read_sweep(
    catalog: Catalog, layers: Sequence[Layer], base: RunSpec | None = None, sets: Sequence[str] = ()
) -> Sweep:
    """Read and check the table ``[sweep]`` of a spec.

    :param layers: of the spec and of those that it extends (``spec_layers``).
    :param base: the resolved spec that the settings of a trial are laid over; without it only the table is checked.
    :param sets: ``sweep.trials=20`` and the like; on top of the file.
    """
    options, problems = overrides(sets)
    layers = [*layers, *((data, {}, origin) for data, origin in options)]
    values, space = _written(layers, problems)
    found = {key: _value(key, value, origin, problems) for key, (value, origin) in values.items()}
    dimensions = [
        dimension
        for at, (raw, origin) in space.items()
        if (dimension := read_dimension(at, raw, origin, catalog, problems)) is not None
    ]
    place = next((place for _, _, place in reversed(layers) if not place.is_option), Origin("spec"))
    if not space:
        what = "there is nothing to search: the spec has no table [sweep.space]"
        problems.append(
            place.problem((), what, f'Write "model.cell" = ["gated", "lstm"], for example: {_FORMS}.')
        )
    problems += _overlaps(dimensions)
    if not problems and base is not None:
        problems += _misfits(catalog, base, dimensions)
    if problems:
        raise SpecError(problems)
    sweep = Sweep(
        **found,
        space={".".join(at): _stored(raw, dimensions, at) for at, (raw, _) in space.items()},
        dimensions=tuple(dimensions),
    )
    return _completed(sweep, values, place)


def _written(
    layers: Sequence[Layer], problems: list[Problem]
) -> tuple[dict[str, tuple[Any, Origin]], dict[Path_, tuple[Any, Origin]]]:
    """The keys of ``[sweep]`` and the searched settings, each with the topmost value and where that was written."""
    values: dict[str, tuple[Any, Origin]] = {}
    space: dict[Path_, tuple[Any, Origin]] = {}
    for data, origins, place in layers:
        table = data.get("sweep", {})
        here = origins.get(("sweep",), place)
        if not isinstance(table, Mapping):
            problems.append(here.problem(("sweep",), f"must be a table, not {table!r}"))
            continue
        for key, value in table.items():
            origin = origins.get(("sweep", key), here)
            if key != "space" or not isinstance(value, Mapping):
                values[key] = (value, origin)
                continue
            for at, raw in _leaves(value):
                space[at] = (raw, _nearest(origins, ("sweep", "space", *at), origin))
    return values, space


def _leaves(table: Mapping[str, Any], at: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """The searched settings of ``[sweep.space]``; ``"model.cell" = ...`` and ``model.cell = ...`` are the same."""
    for key, value in table.items():
        path = (*at, *key.split("."))
        if isinstance(value, Mapping) and not value.keys() & {"low", "high", "choices"}:
            yield from _leaves(value, path)
        else:
            yield path, value


def _nearest(origins: Mapping[Path_, Origin], path: Path_, default: Origin) -> Origin:
    return next((origins[path[:end]] for end in range(len(path), 1, -1) if path[:end] in origins), default)


def _value(key: str, value: Any, origin: Origin, problems: list[Problem]) -> Any:
    fields = {a.name: a for a in attrs.fields(Sweep) if a.name != "dimensions"}
    path = ("sweep", key)
    if key not in fields:
        advice = f"It has {', '.join(fields)}."
        problems.append(origin.problem(path, f"[sweep] has no '{key}'.{nearest(key, fields)}", advice))
        return None
    if key == "space":
        problems.append(origin.problem(path, f"must be a table, not {value!r}"))
        return None
    try:
        value = check_value(value, _KINDS[str(fields[key].type)])
        validator = fields[key].validator
        if validator is not None:
            validator(None, fields[key], value)
    except ValueError as error:
        problems.append(origin.problem(path, str(error)))
    return value


def _overlaps(dimensions: Sequence[Dimension]) -> Iterator[Problem]:
    """A setting of a component whose name is searched too belongs to the choice that has it."""
    for one in dimensions:
        for other in dimensions:
            if one is not other and other.path[: len(one.path)] == one.path:
                key = other.path[-1]
                yield other.origin.problem(
                    other.path,
                    f"{'.'.join(one.path)} is searched too, and not every choice has this setting",
                    f'Write it into the choice that has it: {{name = "...", {key} = {{low = ..., high = ...}}}}.',
                )


def _misfits(catalog: Catalog, base: RunSpec, dimensions: Sequence[Dimension]) -> list[Problem]:
    """What is wrong with a spec that has one of the values; each value is tried alone."""
    problems: list[Problem] = []
    below: Layer = (spec_dict(base), {}, Origin("spec"))
    for dimension in dimensions:
        for settings in dimension.samples():
            tables = nested([*_encoder_with(dimension.path, dimensions), *settings])
            try:
                resolve(catalog, [below, (tables, {}, attrs.evolve(dimension.origin, every_stage=True))])
            except SpecError as error:
                problems += [problem for problem in error.problems if problem not in problems]
    return problems


def _encoder_with(path: Path_, dimensions: Sequence[Dimension]) -> Settings:
    """An encoder among those that are searched with which a setting has an effect; nothing if any will do."""
    for choice in (dimension for dimension in dimensions if isinstance(dimension, Choice)):
        takers = [option for option in choice.options if path not in option.without]
        if len(takers) < len(choice.options):
            return [(choice.path, option.value) for option in takers[:1]]
    return []


def _stored(raw: Any, dimensions: Sequence[Dimension], at: Path_) -> Any:
    """As it was written; ``all`` as the components that are installed now, so that the study stays the same."""
    dimension = next(dimension for dimension in dimensions if dimension.path == at)
    return dimension.values() if raw == "all" else raw


def _completed(sweep: Sweep, values: Mapping[str, tuple[Any, Origin]], place: Origin) -> Sweep:
    """With the sampler and the number of trials; an error if they do not fit the space."""
    origin = values.get("sampler", values.get("trials", (None, place)))[1]
    sampler = sweep.sampler or ("tpe" if sweep.trials else "grid")
    if sampler != "grid":
        if not sweep.trials:
            what = f"the sampler '{sampler}' needs a number of trials"
            raise SpecError(
                [origin.problem(("sweep", "trials"), what, "Write trials = 50, or use --trials 50.")]
            )
        return attrs.evolve(sweep, sampler=sampler)
    endless = [d for d in all_dimensions(sweep.dimensions) if d.values() is None]
    if endless:
        advice = 'Give it a "step" or a list of values, or a number of trials: --trials 50.'
        raise SpecError(
            [d.origin.problem(d.path, "a grid needs a finite number of values", advice) for d in endless]
        )
    count = sum(1 for _ in combined(sweep.dimensions))
    if sweep.trials not in (0, count):
        what = f"the grid has {count} combinations; it takes no other number of trials than that"
        advice = 'Leave "trials" out, or search with sampler = "tpe" or "random".'
        raise SpecError([origin.problem(("sweep", "trials"), what, advice)])
    return attrs.evolve(sweep, sampler=sampler, trials=count)
