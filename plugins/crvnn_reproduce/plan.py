"""The plan of a table: which runs it needs, where they are kept, and why a row cannot be trained here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import field, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.host.catalog import Catalog
from crvnn_core.runs.directory import seed_directory
from crvnn_core.runs.locks import LockFile
from crvnn_reproduce.definition import Column, Experiment, Row, TableDefinition
from crvnn_reproduce.ledger import Entry, Ledger, entry_key
from crvnn_reproduce.specs import RowSpec, row_spec


@frozen(kw_only=True)
class Job:
    """A run of a row in an experiment from one seed, and the tests of its model on other data."""

    row: Row
    experiment: Experiment
    budget: str
    seed: int
    made: RowSpec = field(repr=False)
    #: The run directory.
    directory: Path
    #: Settings of the task to test on after training, one for each test.
    tests: tuple[Mapping[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.row.title}, {self.experiment.title}, seed {self.seed}"

    def key(self, test: Mapping[str, Any] | None = None) -> str:
        """The key of its entry in the ledger, or of that of a test."""
        return entry_key(self.experiment.name, self.budget, self.made.fingerprint, self.seed, test or {})

    @property
    def keys(self) -> list[str]:
        """The keys of all its entries."""
        return [self.key(), *map(self.key, self.tests)]

    @property
    def lock(self) -> LockFile:
        """Whoever holds it may train."""
        return LockFile(self.directory.with_name(f".{self.directory.name}.lock"))

    @property
    def error(self) -> Path:
        """Where the error is kept that ended its last attempt."""
        return self.directory.with_name(f"{self.directory.name}-error.txt")


@frozen(kw_only=True, slots=False)
class Plan:
    """A table to be made with a budget in a directory."""

    table: TableDefinition
    budget: str
    #: Of each row; ``None`` for as many as the experiment's budget has.
    seeds: int | None
    directory: Path
    #: The directory of all datasets.
    data: Path
    catalog: Catalog = field(repr=False)
    ledger: Ledger = field(repr=False)

    def seeds_of(self, experiment: Experiment) -> range:
        """The seeds that each row is trained from."""
        return range(self.seeds or experiment.budget(self.budget).seeds)

    @cached_property
    def specs(self) -> dict[tuple[str, str], RowSpec]:
        """The spec of each row in each experiment, by their names; those that are missing are left out."""
        return {
            (row.name, experiment.name): row_spec(row, experiment, self.budget, self.catalog)
            for row in self.table.rows
            for experiment in self.table.used.values()
            if not row.system.missing
        }

    @cached_property
    def problems(self) -> dict[tuple[str, str], str]:
        """Why a row cannot be trained in an experiment, by their names."""
        found = {}
        for row in self.table.rows:
            for experiment in self.table.used.values():
                if problem := self._problem(row, experiment):
                    found[row.name, experiment.name] = problem
        return found

    @property
    def untrainable(self) -> list[str]:
        """The rows that lack figures for a reason that the user can remove: data or an encoder that is not there."""
        used = self.table.used
        found = (
            row.name
            for row in self.table.rows
            for name, experiment in used.items()
            if (row.name, name) in self.problems
            and not row.system.missing
            and not self.is_complete(row, experiment)
        )
        return list(dict.fromkeys(found))

    def _problem(self, row: Row, experiment: Experiment) -> str:
        if row.system.missing:
            return f"not reproduced: {row.system.missing}"
        made = self.specs[row.name, experiment.name]
        if made.not_installed and not row.layers:
            return f"not run: {made.not_installed}"
        needs = experiment.budget(self.budget).needs.items()
        if missing := {self.data / place: name for place, name in needs if not (self.data / place).is_dir()}:
            commands = "; ".join(f"crvnn data get {name} --dir {place}" for place, name in missing.items())
            return f"not run: there is no data in {', '.join(map(str, missing))} ({commands})"
        try:
            made.spec(0, self.data)
        except CrvnnError as error:
            if row.layers:  # the user's own: nothing is to be trained before it is put right
                raise
            return f"not run: {error}"
        return ""

    @cached_property
    def jobs(self) -> list[Job]:
        """The runs of the rows that can be trained, those of the first seeds first; rows may share them."""
        found: dict[str, Job] = {}
        seeds = max(len(self.seeds_of(experiment)) for experiment in self.table.used.values())
        for seed in range(seeds):
            for job in self._jobs(seed):
                found.setdefault(job.key(), job)
        return list(found.values())

    def _jobs(self, seed: int) -> Iterator[Job]:
        for row in self.table.rows:
            for experiment in self.table.used.values():
                if (row.name, experiment.name) in self.problems or seed not in self.seeds_of(experiment):
                    continue
                made = self.specs[row.name, experiment.name]
                group = f"{row.system.name}-{made.fingerprint}"
                parent = self.directory / self.budget / experiment.name / group
                yield Job(
                    row=row,
                    experiment=experiment,
                    budget=self.budget,
                    seed=seed,
                    made=made,
                    directory=seed_directory(parent, seed),
                    tests=tuple(
                        self.test_of(column)
                        for column in self.table.columns
                        if column.experiment == experiment.name and self.test_of(column)
                    ),
                )

    def test_of(self, column: Column) -> Mapping[str, Any]:
        """The settings that the models of a column are tested on; empty for the run's own splits."""
        if column.lengths:
            samples = self.table.experiments[column.experiment].budget(self.budget).samples
            return {"lengths": column.lengths, "samples": samples}
        return column.test.get(self.budget, {})

    def is_done(self, job: Job) -> bool:
        """Whether the ledger has everything of a job."""
        return all(key in self.ledger.entries for key in self._keys(job))

    def _keys(self, job: Job) -> list[str]:
        return job.keys if job.experiment.measure == "accuracy" else job.keys[1:]

    def is_complete(self, row: Row, experiment: Experiment) -> bool:
        """Whether the ledger has every seed of a row in an experiment, whatever can be trained here."""
        columns = [column for column in self.table.columns if column.experiment == experiment.name]
        seeds = len(self.seeds_of(experiment))
        return all(len(self.entries(row, column)) == seeds for column in columns)

    def entries(self, row: Row, column: Column) -> list[Entry]:
        """What the ledger has for a cell of the table, by ascending seed."""
        experiment = self.table.experiments[column.experiment]
        made = self.specs.get((row.name, experiment.name))
        if made is None:
            return []
        test = self.test_of(column)
        keys = (
            entry_key(experiment.name, self.budget, made.fingerprint, seed, test)
            for seed in self.seeds_of(experiment)
        )
        return [self.ledger.entries[key] for key in keys if key in self.ledger.entries]
