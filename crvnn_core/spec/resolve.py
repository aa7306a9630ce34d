"""Resolving layers to a complete spec, checked against the installed components; all problems in one error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from crvnn_core.errors import CrvnnWarning, Origin, Problem, SpecError, UnknownNameError, nearest
from crvnn_core.host.catalog import Catalog
from crvnn_core.host.slots import ENCODER_PARTS, SLOT_BY_NAME
from crvnn_core.spec.layers import (
    Layer,
    Layered,
    encoder_parameters,
    fill_in_inner,
    find_spec,
    nested,
    override,
    overrides,
    read_tables,
    read_toml,
    table_layers,
)
from crvnn_core.spec.reader import Reader
from crvnn_core.spec.schema import RunSpec, Stage
from crvnn_core.spec.stages import merge_stages, separate_stages, value_paths


def read_spec(
    catalog: Catalog,
    path: Path | str | Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    parts: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
) -> RunSpec:
    """Read a spec (or none, for the defaults) and resolve it.

    Parts, changes and sets hold for every stage of the spec, over what a stage sets itself; of parts and sets a
    warning says so. Only what names the stage, as ``stages.2.training.steps=20``, is on top of them.

    :param path: a spec file, the name of a spec that a plug-in offers, or the tables of a spec as a dictionary.
    :param preset: takes the place of the preset that the file names.
    :param parts: component names by slot; on top of the file.
    :param changes: tables, as a dictionary; on top of these.
    :param sets: ``key.path=value`` texts; on top of everything.
    """
    layers = spec_layers(catalog, path)
    extra, problems = overrides(sets)
    paths = {slot.name: slot.path for slot in SLOT_BY_NAME.values() if not slot.many}
    for slot, name in (parts or {}).items():
        if slot not in paths:
            raise UnknownNameError(f"no slot of a spec is called '{slot}'.{nearest(slot, paths)}")
        origin = Origin(f"--{slot} {name}", directory=Path(), every_stage=True)
        layers.append((nested(paths[slot], name), {}, origin))
    if changes:
        origin = Origin("changes", directory=Path(), every_stage=True)
        layers.append((read_tables(changes, origin), {}, origin))
    layers += [(data, {}, origin) for data, origin in extra]
    return resolve(catalog, layers, preset, problems)


def spec_layers(catalog: Catalog, path: Path | str | Mapping[str, Any] | None) -> list[Layer]:
    """The layers of a spec and of those that it extends, the base first; see ``read_spec``."""
    named = {name: Path(spec.path) for name, (spec, _) in catalog.specs.items()}
    if isinstance(path, Mapping):
        return table_layers(path, named)
    return read_toml(find_spec(path, named), named) if path is not None else []


def resolve(
    catalog: Catalog, layers: Sequence[Layer], preset: str | None = None, problems: Sequence[Problem] = ()
) -> RunSpec:
    """Merge the layers over the defaults and the preset, check every value, and fill in every parameter.

    :param problems: found while reading; they are reported with the rest.
    """
    layers, stages, faults = separate_stages(layers)
    layered = _defaults(catalog)
    reader = Reader(catalog, layered, [*problems, *faults])
    asked = _preset(layers, preset)
    chosen, place = asked or (catalog.default_preset, Origin("default"))
    if chosen is not None and (not isinstance(chosen, str) or chosen not in catalog.presets):
        what = f"no preset is called {chosen!r}.{nearest(str(chosen), catalog.presets)}"
        reader.problems.append(place.problem(("preset",), what, f"Installed: {', '.join(catalog.presets)}."))
        chosen = catalog.default_preset
        if chosen is None:  # every part of the model would be reported as missing
            raise SpecError(reader.problems)
    own = catalog.presets[chosen][0] if chosen is not None else None
    if own is not None:
        layered.merge({"model": own.model}, {}, Origin(f"preset '{chosen}'"))
    for data, origins, origin in layers:
        # The search space of 'crvnn sweep' may stand in the file; as an option it would be lost without a word.
        others = ("preset",) if origin.is_option else ("preset", "sweep")
        layered.merge({key: value for key, value in data.items() if key not in others}, origins, origin)
    fill_in_inner(catalog, layered, own)
    spec = reader.run_spec()
    reader.problems += unused_parts(catalog, layered, layers, asked)
    found: list[Stage] = []
    if stages and not faults:
        merged, notes = merge_stages(layered, layers, stages)
        for note in notes:
            warnings.warn(CrvnnWarning(note), stacklevel=3)
        for tables, stage in zip(stages, merged, strict=True):
            fill_in_inner(catalog, stage, own)
            found += _stage(catalog, tables, stage, reader.problems)
            if any("model" in data for data, _, _ in tables):  # else its parts are those of the spec
                unused = unused_parts(catalog, stage, [*layers, *tables])
                reader.problems += [problem for problem in unused if problem not in reader.problems]
    if reader.problems or spec is None:
        raise SpecError(reader.problems)
    return attrs.evolve(spec, stages=tuple(found))


def _defaults(catalog: Catalog) -> Layered:
    """The components that plug-ins say a spec has where it names none."""
    layered = Layered()
    for slot in SLOT_BY_NAME.values():
        names = catalog.defaults(slot.name)
        if slot.many or names:
            layered.merge(nested(slot.path, names if slot.many else names[0]), {}, Origin("defaults"))
    return layered


def read_resolved(catalog: Catalog, path: Path, sets: Sequence[str] = ()) -> RunSpec:
    """The resolved spec in a file, in its last stage, as it stands: it is complete.

    How it was trained is left out, since what trained it need not be installed.

    :param sets: ``task.key=value`` texts that change the task's settings.
    """
    layered = _defaults(catalog)
    for data, origins, origin in read_toml(path):
        layered.merge({key: data[key] for key in ("seed", "task", "model") if key in data}, origins, origin)
        for stage in data.get("stages", [])[-1:]:
            layered.merge({key: stage[key] for key in ("task", "model") if key in stage}, {}, origin)
    for text in sets:
        data, origin = override(text)
        if list(data) != ["task"]:
            what = "only the task's settings can change, as task.directory=data"
            raise SpecError([origin.problem((), what)])
        layered.merge(data, {}, origin)
    reader = Reader(catalog, layered)
    spec = reader.run_spec()
    if spec is None:
        raise SpecError(reader.problems)
    return spec


def _stage(
    catalog: Catalog, tables: Sequence[Layer], layered: Layered, problems: list[Problem]
) -> Iterator[Stage]:
    """The stage, if it can be read; problems that the spec or another stage has as well are recorded once."""
    reader = Reader(catalog, layered)
    spec = reader.run_spec()
    known = {(problem.where, problem.what) for problem in problems}
    for problem in reader.problems:
        if (problem.where, problem.what) in known:
            continue
        if problem.where.startswith("--"):  # an option does not say which stage it fails for
            number = tables[0][2].under[1]
            where = f"in stage {number}; --set stages.{number}.KEY=VALUE sets a value of one stage"
            problem = attrs.evolve(problem, context=where)
        problems.append(problem)
    if spec is not None:
        name = next((data["name"] for data, _, _ in reversed(tables) if "name" in data), "")
        yield Stage(
            name=name,
            task=spec.task,
            model=spec.model,
            training=spec.training,
            given=frozenset(path for data, _, _ in tables for path in value_paths(data)),
            place=tables[0][2],
        )


def _preset(layers: Sequence[Layer], asked: str | None) -> tuple[Any, Origin] | None:
    """The preset that is asked for, or else the one that the topmost layer names, and where."""
    if asked is not None:
        return asked, Origin(f"--preset {asked}")
    for data, origins, origin in reversed(layers):
        if "preset" in data:
            return data["preset"], origins.get(("preset",), origin)
    return None


def unused_parts(
    catalog: Catalog, layered: Layered, layers: Sequence[Layer], preset: tuple[Any, Origin] | None = None
) -> list[Problem]:
    """A problem for each part that is set where the encoder is named, or above, and that the encoder does not take.

    What a layer below the encoder's sets without effect is a warning: whoever names another encoder for a spec means
    to do without. So is a preset of the command line that has no effect at all.

    :param layers: all layers that were merged, in their order.
    :param preset: the preset that was asked for by name, and where.
    """
    model = layered.data.get("model")
    encoder, *inside = _names(model.get("encoder") if isinstance(model, dict) else None)
    taken: set[str] = set()
    for name in (encoder, *inside):
        parameters = encoder_parameters(catalog, name)
        if parameters is None:
            return []
        taken |= {slot for slot in ENCODER_PARTS if slot in parameters}
    ranks: dict[str, int] = {}
    for rank, (_, _, origin) in enumerate(layers, 1):
        ranks.setdefault(origin.label, rank)  # a stage has the label of the file that it stands in
    named = _rank(layered.origin(("model", "encoder", "name")), ranks)
    problems = []
    for slot in [slot for slot in ENCODER_PARTS if slot not in taken]:
        place = layered.origin(("model", slot))
        if not place.is_option and place.directory is None:  # written by a preset, or into the spec of a run
            continue
        what = f"this has no effect: the encoder '{encoder}' has no {slot}"
        if _rank(place, ranks) < named:
            warnings.warn(CrvnnWarning(f"{place.where(('model', slot))}: {what}"), stacklevel=2)
        else:
            others = ", ".join(
                name
                for name in catalog.components["encoder"]
                if slot in (encoder_parameters(catalog, name) or ())
            )
            problems.append(place.problem(("model", slot), what, f"Remove it. Encoders with one: {others}."))
    chosen, by = preset or (catalog.default_preset, Origin("default"))
    if named and not taken and by.is_option and chosen != catalog.default_preset:
        what = f"the encoder '{encoder}' has none of the parts that this preset sets"
        warnings.warn(CrvnnWarning(f"{by.label}: {what}"), stacklevel=2)
    return problems


def _names(encoder: object) -> Iterator[object]:
    """The name of an encoder, and of those inside it."""
    table = encoder if isinstance(encoder, dict) else {}
    yield table.get("name")
    if (inner := table.get(SLOT_BY_NAME["encoder"].inner)) is not None:
        yield from _names(inner)


def _rank(place: Origin, ranks: dict[str, int]) -> int:
    """The layer that a value comes from; all options of the command line are one layer, on top."""
    return sys.maxsize if place.is_option else ranks.get(place.label, 0)
