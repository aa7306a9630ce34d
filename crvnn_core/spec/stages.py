"""The stages of a spec: their tables among the layers, what they may set, and whether their weights fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from crvnn_core.errors import Path_, Problem, nearest
from crvnn_core.runs.directory import flatten
from crvnn_core.spec.layers import Layer, Layered, names_component
from crvnn_core.spec.schema import RunSpec
from crvnn_core.spec.write import spec_dict

if TYPE_CHECKING:
    from crvnn_core.spec.assembly import Assembly

_TABLES = ("task", "model", "training")
_KEYS = ("name", *_TABLES)
#: Settings that all stages of a run share.
SHARED_SETTINGS = (
    ("model", "width"),
    ("training", "start"),
    ("training", "accelerator"),
    ("training", "devices"),
    ("training", "precision"),
    ("training", "threads"),
    ("training", "observers"),
)


def separate_stages(layers: Sequence[Layer]) -> tuple[list[Layer], list[list[Layer]], list[Problem]]:
    """The layers without their stages, the layers of each stage, and the problems with these.

    A list of stages replaces the list below. A table with numbers for keys (``stages.2.task.max_tokens=50``) is merged
    into the stages of those numbers, which count from 1.
    """
    base: list[Layer] = []
    stages: list[list[Layer]] = []
    problems: list[Problem] = []
    for data, origins, origin in layers:
        base.append(({key: value for key, value in data.items() if key != "stages"}, origins, origin))
        if "stages" not in data:
            continue
        given, place = data["stages"], origins.get(("stages",), origin)
        numbered = isinstance(given, Mapping) and all(key.isdigit() for key in given)
        if isinstance(given, list) and given:
            stages = [[] for _ in given]
            given = {str(number): table for number, table in enumerate(given, 1)}
        elif isinstance(given, list):
            problems.append(
                place.problem(("stages",), "the list is empty; leave it out to train in one stage")
            )
            continue
        elif not numbered:
            what = f"must be a list of tables, not {given!r}"
            problems.append(place.problem(("stages",), what, "Write each stage under a header [[stages]]."))
            continue
        for number, table in given.items():
            under = ("stages", number)
            own = {at[2:]: evolve(found, under=under) for at, found in origins.items() if at[:2] == under}
            layer = (table, own, own.get((), evolve(place, under=under)))
            wrong = list(_problems(number, table, layer, len(stages)))
            problems += wrong
            if not wrong:
                stages[int(number) - 1].append(layer)
    return base, stages, problems


def _problems(number: str, table: Any, layer: Layer, stages: int) -> Iterator[Problem]:
    _, origins, place = layer
    if not 1 <= int(number) <= stages:
        has = f"The spec has {stages}, numbered from 1." if stages else "The spec has no stages."
        yield place.problem((), f"there is no stage {number}", has)
    elif not isinstance(table, Mapping):
        yield place.problem((), f"a stage must be a table, not {table!r}")
    else:
        for key, value in table.items():
            origin = origins.get((key,), place)
            if key == "name" and not isinstance(value, str):
                yield origin.problem((key,), f"must be a string, not {value!r}")
            elif key not in _KEYS:
                shared = " All stages share the seed." if key == "seed" else nearest(key, _KEYS)
                yield origin.problem(
                    (key,), f"a stage has no '{key}'.{shared}", f"It has {', '.join(_KEYS)}."
                )
        for path in SHARED_SETTINGS:
            if _at(table, path) is not _ABSENT:
                origin = next((origins[at] for at in (path, path[:1]) if at in origins), place)
                what = f"all stages share this setting; set {'.'.join(path)} for the whole spec"
                yield origin.problem(path, what)


def merge_stages(
    base: Layered, layers: Sequence[Layer], stages: Sequence[Sequence[Layer]]
) -> tuple[list[Layered], list[str]]:
    """The spec with the tables of each stage over it, and what to say of options that a stage of the file sets as well.

    What holds for every stage overrides the tables of files, and options for the one stage override it.

    :param layers: those of the spec.
    """
    every = [layer for layer in layers if layer[2].every_stage]
    written = [_merged(base, [table for table in tables if not table[2].every_stage]) for tables in stages]
    merged = [
        _merged(stage, [*every, *(table for table in tables if table[2].every_stage)])
        for stage, tables in zip(written, stages, strict=True)
    ]
    notes = []
    for data, _, option in every:
        paths = [path for path in value_paths(data) if path[0] in _TABLES]
        holding = [
            all(stage.origin(path) == option and _at(stage.data, path) is not _ABSENT for path in paths)
            for stage in merged
        ]
        changed = any(
            holds and _at(before.data, path) != _at(now.data, path)
            for before, now, holds in zip(written, merged, holding, strict=True)
            for path in paths
        )
        if option.is_option and changed:
            which = "all" if all(holding) else f"{sum(holding)} of the"
            notes.append(f"{option.label.removeprefix('--set ')} holds for {which} {len(merged)} stages")
    return merged, notes


def _merged(base: Layered, layers: Sequence[Layer]) -> Layered:
    layered = base.copy()
    for data, origins, origin in layers:
        layered.merge({key: data[key] for key in _TABLES if key in data}, origins, origin)
    return layered


def weight_problems(spec: RunSpec, built: Sequence[Assembly]) -> list[Problem]:
    """Why weights cannot carry over between stages: they mean other tokens or classes, or have other shapes."""
    problems = []
    first, *later = built
    for stage, described in zip(later, spec.stages[1:], strict=True):
        if what := _misfit(first, stage):
            advice = f"Settings that are not those of stage 1: {', '.join(_differing(first, stage))}."
            problems.append(
                described.place.problem((), f"weights carry over between stages, but {what}", advice)
            )
    return problems


def _misfit(first: Assembly, stage: Assembly) -> str:
    if stage.model.vocabulary.tokens != first.model.vocabulary.tokens:
        return "the vocabulary is another than in stage 1"
    if tuple(stage.task.classes) != tuple(first.task.classes):
        return f"the classes are {list(stage.task.classes)}, in stage 1 {list(first.task.classes)}"
    before, now = (
        {name: list(parameter.shape) for name, parameter in assembly.model.named_parameters()}
        for assembly in (first, stage)
    )
    for name in before | now:
        if before.get(name) != now.get(name):
            return f"{name} is {now.get(name, 'absent')} here and {before.get(name, 'absent')} in stage 1"
    return ""


def _differing(first: Assembly, stage: Assembly) -> list[str]:
    """The settings of task and model that differ; of different components only their place."""
    before, now = (flatten(spec_dict(assembly.spec)) for assembly in (first, stage))
    keys = [
        key for key in before | now if before.get(key) != now.get(key) and not key.startswith("training.")
    ]
    return [key for key in keys if not any(key.startswith(f"{other}.") for other in keys)]


_ABSENT = object()


def _at(data: Any, path: Path_) -> Any:
    """The value at a path of nested tables."""
    for key in path:
        data = data.get(key, _ABSENT) if isinstance(data, Mapping) else _ABSENT
    return data


def value_paths(data: Mapping[str, Any], at: Path_ = ()) -> Iterator[Path_]:
    """The paths of all values in nested tables; of a component by name, the path of the name."""
    for key, value in data.items():
        path = (*at, key)
        if isinstance(value, Mapping):
            yield from value_paths(value, path)
        else:
            yield (*path, "name") if names_component(path) else path
