"""Tables as data: experiments, systems, rows with their published figures, columns and claims, read from TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import attrs
from attrs import field, frozen

from crvnn_core.errors import CrvnnError, UnknownNameError, nearest

#: The budgets that an experiment may have.
BUDGETS = ("laptop", "soft", "paper")
#: What is used by all tables, beside them.
_SHARED = ("experiments", "systems")
_T = TypeVar("_T")


@frozen(kw_only=True)
class Budget:
    """How an experiment is done with one budget."""

    #: The spec of its runs, without the model of a row; it may extend one that has a name.
    spec: Mapping[str, Any]
    #: The data in a few words.
    data: str
    #: Directories that must be there among the datasets, each with its name for ``crvnn data get``.
    needs: Mapping[str, str] = field(factory=dict)
    #: How many seeds a row gets unless ``--seeds`` says otherwise.
    seeds: int = 5
    #: Expressions of each length, for speed.
    samples: int = 0


@frozen(kw_only=True)
class Experiment:
    """Data and training that rows share: each row's model is trained, or timed, on it."""

    name: str
    title: str
    #: ``accuracy`` in percent, or ``minutes``, of which fewer are better.
    measure: str = "accuracy"
    #: By name.
    budgets: Mapping[str, Budget]

    @property
    def is_timing(self) -> bool:
        """Whether models are timed, not trained."""
        return self.measure == "minutes"


@frozen(kw_only=True)
class System:
    """A model that rows of several tables name."""

    name: str
    title: str
    #: Who proposed it.
    by: str = ""
    #: What differs from the model of the experiment.
    model: Mapping[str, Any] = field(factory=dict)
    #: Why there is no such model; empty if there is.
    missing: str = ""
    #: Changes of the whole spec for a budget, an experiment, or both (``laptop``, ``logic``, ``logic-paper``).
    changes: Mapping[str, Mapping[str, Any]] = field(factory=dict)


@frozen
class Figure:
    """A published number, with its standard deviation over seeds if that is known."""

    mean: float
    spread: float | None = None
    text: str = ""


@frozen(kw_only=True)
class Column:
    """What a table shows of each row: one number of one experiment."""

    name: str
    experiment: str
    split: str = "test"
    #: The group of the split; empty for all of it.
    group: str = ""
    #: By budget, settings of the task whose test split the trained model is tested on, instead of the run's own.
    test: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    #: By budget, the title where it is another than the name.
    titles: Mapping[str, str] = field(factory=dict)
    #: Of expressions, for speed: ``81-100``.
    lengths: str = ""

    @property
    def measure(self) -> str:
        """The name of the number among the figures of a run."""
        return f"{self.split}/{self.group}" if self.group else self.split


@frozen(kw_only=True)
class Row:
    """A line of a table: a system, and what is published of it."""

    name: str
    system: System
    title: str
    section: str = ""
    #: By column.
    published: Mapping[str, Figure] = field(factory=dict)
    #: Where the figures were published.
    source: str = ""
    #: What a reader of the figures should know.
    note: str = ""
    #: Of a user's spec, over those of the experiment; see ``specs.with_rows``.
    layers: tuple[Any, ...] = ()


@frozen(kw_only=True)
class Claim:
    """A sentence of the paper about rows: that one is better than others, or that one is as good as another."""

    says: str
    row: str
    #: Rows that it is better than.
    better_than: tuple[str, ...] = field(default=(), converter=tuple)
    #: The row that it differs little from, and by budget how many points are little.
    close_to: str = ""
    within: Mapping[str, float] = field(factory=dict)
    #: In which columns; all if there are none.
    columns: tuple[str, ...] = field(default=(), converter=tuple)

    @property
    def others(self) -> tuple[str, ...]:
        """The rows that its row is compared with."""
        return (*self.better_than, *filter(None, [self.close_to]))


@frozen(kw_only=True)
class TableDefinition:
    """A table of the paper, or one like it."""

    name: str
    title: str
    #: Which table of which paper.
    source: str = ""
    note: str = ""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...] = ()
    experiments: Mapping[str, Experiment]

    @property
    def used(self) -> dict[str, Experiment]:
        """The experiments of its columns, in their order."""
        return {column.experiment: self.experiments[column.experiment] for column in self.columns}

    def expect_budget(self, name: str) -> None:
        """An error if an experiment does not have this budget."""
        for experiment in self.used.values():
            if name not in experiment.budgets:
                raise CrvnnError(
                    f"the table '{self.name}' has no budget '{name}': the experiment '{experiment.name}' has "
                    f"{', '.join(experiment.budgets)}"
                )

    def only(self, names: Sequence[str]) -> TableDefinition:
        """The table with these rows and the claims about them alone; an error for a name that no row has."""
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                raise UnknownNameError(
                    f"the table '{self.name}' has no row '{name}'.{nearest(name, known)}\nRows: {', '.join(known)}."
                )
        kept = set(names)
        rows = tuple(row for row in self.rows if row.name in kept)
        return attrs.evolve(
            self, rows=rows, claims=tuple(c for c in self.claims if kept.issuperset((c.row, *c.others)))
        )


def table_names() -> list[str]:
    """The tables that come with crvnn."""
    found = (Path(entry.name) for entry in files("crvnn_experiments").joinpath("tables").iterdir())
    return sorted(path.stem for path in found if path.suffix == ".toml" and path.stem not in _SHARED)


def read_table(name: str) -> TableDefinition:
    """A table by name, or one of the user's by the path of its file."""
    if name in table_names():
        return _Reader(name, f"table '{name}'", _shipped(name)).table()
    path = Path(name)
    if path.suffix != ".toml":
        raise UnknownNameError(
            f"no table is called '{name}'.{nearest(name, table_names())}\nTables: {', '.join(table_names())}; "
            "or a file of your own that ends in .toml."
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CrvnnError(f"{path}: there is no such file. Tables: {', '.join(table_names())}.") from None
    except (OSError, ValueError) as error:
        raise CrvnnError(f"{path}: this is not TOML: {error}") from None
    return _Reader(path.stem, str(path), data).table()


@cache
def _shipped(name: str) -> dict[str, Any]:
    return tomllib.loads(files("crvnn_experiments").joinpath("tables", f"{name}.toml").read_text("utf-8"))


class _Reader:
    """Reads the tables of one file; what it does not define of experiments and systems is crvnn's."""

    def __init__(self, name: str, place: str, data: Mapping[str, Any]) -> None:
        self.name, self.place, self.data = name, place, dict(data)

    def table(self) -> TableDefinition:
        experiments = {
            name: self._experiment(name, data)
            for name, data in {**_shipped("experiments"), **self.data.pop("experiments", {})}.items()
        }
        self.systems = {
            name: self._record(System, {"name": name, **data}, f"systems.{name}")
            for name, data in {**_shipped("systems"), **self.data.pop("systems", {})}.items()
        }
        columns = self._each("columns", Column)
        rows = [self._row(data, columns) for data in self.data.pop("rows", [])]
        claims = self._each("claims", Claim)
        content = {**self.data, "columns": columns, "rows": tuple(rows), "claims": claims}
        found: TableDefinition = self._record(
            TableDefinition, {"name": self.name, **content, "experiments": experiments}, ""
        )
        self._check(found)
        return found

    def _experiment(self, name: str, data: Mapping[str, Any]) -> Experiment:
        where = f"experiments.{name}"
        budgets = {key: self._record(Budget, data[key], f"{where}.{key}") for key in BUDGETS if key in data}
        others = {key: value for key, value in data.items() if key not in BUDGETS}
        return self._record(Experiment, {"name": name, **others, "budgets": budgets}, where)

    def _row(self, data: Mapping[str, Any], columns: Iterable[Column]) -> Row:
        name = str(data.get("system", data.get("name", "")))
        where = f"rows.{data.get('name', name)}"
        if name not in self.systems:
            self._complain(where, f"no system is called '{name}'.{nearest(name, self.systems)}")
        published = {key: self._figure(str(text), where) for key, text in data.get("published", {}).items()}
        known = [column.name for column in columns]
        for key in published:
            if key not in known:
                self._complain(where, f"there is no column '{key}'.{nearest(key, known)}")
        system = self.systems[name]
        content = {"name": name, "title": system.title, **data, "system": system, "published": published}
        return self._record(Row, content, where)

    def _figure(self, text: str, where: str) -> Figure:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?", text)
        if not found:
            self._complain(where, f"a published figure is written as 99.6 or as 99.6 ± 0.3, not {text!r}")
        return Figure(float(found[1]), float(found[2]) if found[2] else None, text)

    def _each(self, key: str, kind: type[_T]) -> tuple[_T, ...]:
        found = self.data.pop(key, [])
        return tuple(self._record(kind, data, f"{key} {number}") for number, data in enumerate(found, 1))

    def _check(self, table: TableDefinition) -> None:
        """An error for names that nothing has, and for two rows or columns of one name."""
        rows, columns = [row.name for row in table.rows], [column.name for column in table.columns]
        for what, names in (("rows", rows), ("columns", columns)):
            if not names or len(set(names)) < len(names):
                self._complain(what, "there must be at least one, and no two of the same name")
        for column in table.columns:
            if column.experiment not in table.experiments:
                guess = nearest(column.experiment, table.experiments)
                self._complain(
                    f"columns.{column.name}", f"no experiment is called '{column.experiment}'.{guess}"
                )
        for claim in table.claims:
            missing = [name for name in (claim.row, *claim.others) if name not in rows]
            missing += [name for name in claim.columns if name not in columns]
            if missing:
                self._complain("claims", f"'{claim.says}' names '{missing[0]}', which is not there")

    def _record(self, kind: type[_T], data: Mapping[str, Any], where: str) -> _T:
        fields = attrs.fields_dict(kind)  # type: ignore[arg-type]
        for key in data:
            if key not in fields:
                self._complain(
                    where, f"there is no '{key}'.{nearest(key, fields)} It has {', '.join(fields)}."
                )
        try:
            return kind(**data)
        except TypeError as error:
            self._complain(where, str(error).partition(" ")[2])

    def _complain(self, where: str, what: str) -> NoReturn:
        raise CrvnnError(f"{self.place}{f' [{where}]' if where else ''}: {what}")
