"""The spec of a row in an experiment: layers over each other, and the fingerprint that its runs are known by."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from crvnn_core.errors import CrvnnError, CrvnnWarning, Origin
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, spec_dict
from crvnn_core.spec.layers import Layer, Layered, read_tables
from crvnn_core.spec.resolve import resolve, spec_layers
from crvnn_experiments.definition import Experiment, Row, System, TableDefinition
from crvnn_experiments.worker import with_few_lines

#: Where the specs that come with crvnn expect their data.
_DATA = "data/"


@frozen
class RowSpec:
    """What is trained for a row in an experiment with a budget."""

    catalog: Catalog = field(repr=False)
    layers: tuple[Layer, ...] = field(repr=False)
    #: Of everything that was set; defaults of components do not count, nor where the data is.
    fingerprint: str

    def spec(self, seed: int, data: Path) -> RunSpec:
        """The resolved spec.

        :param data: the directory of all datasets.
        """
        layers = [(_moved(tables, data), origins, origin) for tables, origins, origin in self.layers]
        with warnings.catch_warnings():  # what an experiment sets of parts that a row's encoder has not
            warnings.simplefilter("ignore", CrvnnWarning)
            return with_few_lines(attrs.evolve(resolve(self.catalog, layers), seed=seed))

    @property
    def not_installed(self) -> str:
        """Which component is not installed; empty if all are."""
        named = _merged(self.layers).get("model", {})
        for slot in ("encoder", "cell"):
            name = named.get(slot, {}).get("name")
            if name is not None and name not in self.catalog.components[slot]:
                return f"the {slot} '{name}' is not installed"
        return ""


def row_spec(row: Row, experiment: Experiment, budget: str, catalog: Catalog) -> RowSpec:
    """The spec of a row: that of the experiment, with the row's model and its changes over it."""
    place = Origin(f"experiment '{experiment.name}', budget {budget}", directory=Path())
    layers = spec_layers(catalog, dict(experiment.budgets[budget].spec))
    layers = [*layers[:-1], (layers[-1][0], {}, place)]
    for tables in _tables(row.system, experiment.name, budget):
        layers.append((read_tables(tables, place), {}, Origin(f"row '{row.name}'", directory=Path())))
    layers += row.layers
    return RowSpec(catalog, tuple(layers), _fingerprint(layers))


def _tables(system: System, experiment: str, budget: str) -> list[Mapping[str, Any]]:
    """What a system changes of a spec, each over the one before."""
    changes = [system.changes.get(key) for key in (budget, experiment, f"{experiment}-{budget}")]
    return [each for each in ({"model": system.model} if system.model else None, *changes) if each]


def with_rows(table: TableDefinition, paths: Iterable[Path], catalog: Catalog) -> TableDefinition:
    """A table with a row for each of some spec files: its preset and its model."""
    for path in paths:
        taken = [row.name for row in table.rows]
        table = attrs.evolve(table, rows=(*table.rows, _added(path, catalog, taken)))
    return table


def _added(path: Path, catalog: Catalog, taken: list[str]) -> Row:
    layers = [
        ({key: data[key] for key in ("preset", "model") if key in data}, origins, origin)
        for data, origins, origin in spec_layers(catalog, path)
    ]
    if not any(data for data, _, _ in layers):
        raise CrvnnError(f"{path} has neither a [model] nor a preset; --add takes these of a spec")
    name = path.stem
    if name in taken:
        raise CrvnnError(f"{path}: the table has a row '{name}' already; give the file another name")
    system = System(name=name, title=name)
    return Row(name=name, title=name, system=system, section="added", layers=tuple(layers))


def portable(spec: RunSpec) -> dict[str, Any]:
    """A spec as tables in which no path names a machine's directories."""
    found: dict[str, Any] = _portable(spec_dict(spec))
    found["training"].pop("observers", None)
    return found


def _portable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    if isinstance(value, str) and os.path.isabs(value):
        near = os.path.relpath(value)
        return Path(value).name if near.startswith("..") else near
    return value


def _merged(layers: tuple[Layer, ...] | list[Layer]) -> dict[str, Any]:
    layered = Layered()
    for data, origins, origin in layers:
        kept = {key: value for key, value in data.items() if key != "sweep"}
        if isinstance(kept.get("stages"), Mapping):  # over single stages of the list below, which stays
            kept["over stages"] = kept.pop("stages")
        layered.merge(kept, origins, origin)
    return layered.data


def _fingerprint(layers: list[Layer]) -> str:
    content = json.dumps(_merged(layers), sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _moved(tables: Any, data: Path) -> Any:
    """Tables in which ``data/NAME`` is in another directory."""
    if isinstance(tables, Mapping):
        return {key: _moved(value, data) for key, value in tables.items()}
    if isinstance(tables, list):
        return [_moved(value, data) for value in tables]
    is_data = isinstance(tables, str) and tables.startswith(_DATA) and data != Path("data")
    return str(data / tables.removeprefix(_DATA)) if is_data else tables
