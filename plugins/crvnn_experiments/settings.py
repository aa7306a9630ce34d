"""The table ``[sweep]`` of a spec: what is searched, how, and how long. Problems name the line they stand on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import attrs
from attrs import field, frozen

from crvnn_core.annotations import Count, CountOrZero, Range, check_value
from crvnn_core.errors import Origin, Path_, Problem, SpecError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, spec_dict
from crvnn_core.spec.layers import Layer, origin_at, overrides
from crvnn_core.spec.resolve import resolve
from crvnn_experiments.space import (
    Choice,
    Dimension,
    all_dimensions,
    combined,
    layer,
    read_dimension,
    samples,
)

_FORMS = 'a list of values, a table with "low" and "high", or "all" for every installed component'


@frozen(kw_only=True)
class Sweep:
    """What is searched, how, and how long."""

    #: How settings are chosen: ``grid`` (every combination), ``tpe`` (near the best so far) or ``random``. By default
    #: ``grid`` if no number of trials is given, otherwise ``tpe``.
    sampler: Literal["", "grid", "tpe", "random"] = ""
    #: How many combinations are tried; a grid has as many as there are.
    trials: CountOrZero = 0
    #: Runs of each trial, from the spec's seed upwards; their mean counts.
    seeds: Count = 1
    #: What is searched for on the development split: the highest ``accuracy`` or the lowest ``loss``.
    metric: Literal["accuracy", "loss"] = "accuracy"
    #: Which trials are ended early: ``none``; those below the ``median`` of the others at the same step; or all but the
    #: best third of those that came so far, at steps that triple (successive ``halving``).
    pruner: Literal["none", "median", "halving"] = "none"
    #: Seed of the sampler.
    seed: Annotated[int, Range(ge=0, le=2**31 - 1)] = 0
    #: How often a trial is continued whose process was killed.
    retries: CountOrZero = 3
    #: The settings that are searched, as they stand in the spec.
    space: dict[str, Any] = field(factory=dict)
    dimensions: tuple[Dimension, ...] = field(default=(), eq=False, repr=False)

    @property
    def maximised(self) -> bool:
        """Whether more of the metric is better."""
        return self.metric == "accuracy"

    def plain(self) -> dict[str, Any]:
        """The table, complete, for TOML and JSON."""
        return {name: getattr(self, name) for name in _FIELDS}


attrs.resolve_types(Sweep)  # values are checked against the types of fields
_FIELDS = {each.name: each.type for each in attrs.fields(Sweep) if each.name != "dimensions"}


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
    values: dict[str, Any] = {}
    space: dict[Path_, tuple[Any, Origin]] = {}
    places: dict[str, Origin] = {}  # of the values
    for data, origins, place in layers:
        origin_of = partial(origin_at, origins=origins, default=place)
        table = data.get("sweep", {})
        for key, value in table.items() if isinstance(table, Mapping) else [("", table)]:
            places[key] = origin_of(("sweep", key))
            try:
                values[key] = _checked(key, value)
            except ValueError as error:
                problems.append(places[key].problem(("sweep", *filter(None, [key])), str(error)))
        if "space" in values:
            space |= {
                at: (raw, origin_of(("sweep", "space", *at))) for at, raw in _leaves(values.pop("space"))
            }
    dimensions: list[Dimension] = []
    for at, (raw, origin) in space.items():
        try:
            dimensions.append(read_dimension(at, raw, origin, catalog))
        except SpecError as error:
            problems += error.problems
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
    written = {  # "all" as the components that are installed now, so that the study stays the same
        ".".join(each.path): each.values() if space[each.path][0] == "all" else space[each.path][0]
        for each in dimensions
    }
    sweep = Sweep(**values, space=written, dimensions=tuple(dimensions))
    return _completed(sweep, places.get("sampler", places.get("trials", place)))


def _checked(key: str, value: Any) -> Any:
    """A value of the table; ``ValueError`` says what is wrong with it."""
    if not key or (key == "space" and not isinstance(value, Mapping)):
        raise ValueError(f"must be a table, not {value!r}")
    if key not in _FIELDS:
        raise ValueError(f"[sweep] has no '{key}'.{nearest(key, _FIELDS)} It has {', '.join(_FIELDS)}.")
    return value if key == "space" else check_value(value, _FIELDS[key])


def _leaves(table: Mapping[str, Any], at: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """The searched settings of ``[sweep.space]``; ``"model.cell" = ...`` and ``model.cell = ...`` are the same."""
    for key, value in table.items():
        path = (*at, *key.split("."))
        if isinstance(value, Mapping) and not value.keys() & {"low", "high", "choices"}:
            yield from _leaves(value, path)
        else:
            yield path, value


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
    """What is wrong with a spec that has one of the values; each is tried alone, with an encoder that it affects."""
    problems: list[Problem] = []
    below: Layer = (spec_dict(base), {}, Origin("spec"))
    for dimension in dimensions:
        encoder: dict[str, Any] = {}
        for choice in dimensions:
            if isinstance(choice, Choice):
                takers = [each.label for each in choice.options if dimension.path not in each.without]
                encoder |= {choice.name: takers[0]} if 0 < len(takers) < len(choice.options) else {}
        for params in samples(dimension):
            tables = layer(dimensions, {**encoder, **params})
            try:
                resolve(catalog, [below, (tables, {}, attrs.evolve(dimension.origin, every_stage=True))])
            except SpecError as error:
                problems += [problem for problem in error.problems if problem not in problems]
    return problems


def _completed(sweep: Sweep, origin: Origin) -> Sweep:
    """With the sampler and the number of trials; an error if they do not fit the space.

    :param origin: of the sampler or the number of trials.
    """
    sampler = sweep.sampler or ("tpe" if sweep.trials else "grid")
    if sampler != "grid":
        if not sweep.trials:
            what = f"the sampler '{sampler}' needs a number of trials"
            advice = "Write trials = 50, or use --trials 50."
            raise SpecError([origin.problem(("sweep", "trials"), what, advice)])
        return attrs.evolve(sweep, sampler=sampler)
    endless = [each for each in all_dimensions(sweep.dimensions) if each.values() is None]
    if endless:
        what = "a grid needs a finite number of values"
        advice = 'Give it a "step" or a list of values, or a number of trials: --trials 50.'
        raise SpecError([each.origin.problem(each.path, what, advice) for each in endless])
    count = sum(1 for _ in combined(sweep.dimensions))
    if sweep.trials not in (0, count):
        what = f"the grid has {count} combinations; it takes no other number of trials than that"
        advice = 'Leave "trials" out, or search with sampler = "tpe" or "random".'
        raise SpecError([origin.problem(("sweep", "trials"), what, advice)])
    return attrs.evolve(sweep, sampler=sampler, trials=count)
