"""The plan of a table: which runs it needs, where they are kept, and why a row cannot be trained here."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import field, frozen

from crvnn_core.errors import CrvnnError
from crvnn_core.host.catalog import Catalog
from crvnn_core.runs.directory import RunDirectory, seed_directory
from crvnn_experiments.definition import Column, Experiment, Row, TableDefinition
from crvnn_experiments.ledger import Entry, Ledger, entry_key, new_entry, scores
from crvnn_experiments.specs import RowSpec, row_spec
from crvnn_experiments.worker import Clock, Job, train


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
        return range(self.seeds or experiment.budgets[self.budget].seeds)

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
        return {
            (row.name, name): problem
            for row in self.table.rows
            for name, experiment in self.table.used.items()
            if (problem := self._problem(row, experiment))
        }

    @property
    def untrainable(self) -> list[str]:
        """The rows that lack figures for a reason that the user can remove: data or an encoder that is not there."""
        found = (
            row.name
            for row in self.table.rows
            for name, experiment in self.table.used.items()
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
        needs = experiment.budgets[self.budget].needs.items()
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
    def runs(self) -> list[Run]:
        """The runs of the rows that can be trained, those of the first seeds first; rows may share them."""
        found: dict[str, Run] = {}
        for seed in range(max(len(self.seeds_of(experiment)) for experiment in self.table.used.values())):
            for run in self._runs(seed):
                found.setdefault(run.key(), run)
        return list(found.values())

    def _runs(self, seed: int) -> Iterator[Run]:
        for row in self.table.rows:
            for experiment in self.table.used.values():
                if (row.name, experiment.name) in self.problems or seed not in self.seeds_of(experiment):
                    continue
                made = self.specs[row.name, experiment.name]
                group = f"{row.system.name}-{made.fingerprint}"
                parent = self.directory / self.budget / experiment.name / group
                columns = [column for column in self.table.columns if column.experiment == experiment.name]
                yield Run(
                    plan=self,
                    row=row,
                    experiment=experiment,
                    seed=seed,
                    made=made,
                    directory=seed_directory(parent, seed),
                    tests=tuple(filter(None, map(self.test_of, columns))),
                )

    def left(self) -> list[Run]:
        """The runs that the ledger lacks."""
        return [run for run in self.runs if not run.is_done]

    def test_of(self, column: Column) -> Mapping[str, Any]:
        """The settings that the models of a column are tested on; empty for the run's own splits."""
        if column.lengths:
            samples = self.table.experiments[column.experiment].budgets[self.budget].samples
            return {"lengths": column.lengths, "samples": samples}
        return column.test.get(self.budget, {})

    def is_complete(self, row: Row, experiment: Experiment) -> bool:
        """Whether the ledger has every seed of a row in an experiment, whatever can be trained here."""
        columns = [column for column in self.table.columns if column.experiment == experiment.name]
        seeds = len(self.seeds_of(experiment))
        return all(len(self.entries(row, column)) == seeds for column in columns)

    def entries(self, row: Row, column: Column, training: bool = False) -> list[Entry]:
        """What the ledger has for a cell of the table, by ascending seed.

        :param training: the entries with the cost of a cell: those of the runs themselves, not of later tests.
        """
        test = {} if training and not column.lengths else self.test_of(column)
        experiment = self.table.experiments[column.experiment]
        made = self.specs.get((row.name, experiment.name))
        if made is None:
            return []
        keys = (
            entry_key(experiment.name, self.budget, made.fingerprint, seed, test)
            for seed in self.seeds_of(experiment)
        )
        return [self.ledger.entries[key] for key in keys if key in self.ledger.entries]

    def time_left(self) -> str:
        """How long the rest will take if runs take as long as those of the same row, or else of the same experiment."""
        entries = [entry for entry in self.ledger.entries.values() if not entry.test]
        hours = 0.0
        for run in self.left():
            alike = [e for e in entries if (e.experiment, e.budget) == (run.experiment.name, self.budget)]
            same = [entry.hours for entry in alike if entry.fingerprint == run.made.fingerprint]
            if not alike:
                return ""
            hours += statistics.fmean(same or [entry.hours for entry in alike])
        minutes = round(60 * hours)
        return f" (about {minutes // 60} h {minutes % 60} min left)".replace(" 0 h ", " ")


@frozen(kw_only=True, eq=False, slots=False)
class Run(Job):
    """A run of a row in an experiment from one seed, and the tests of its model on other data."""

    plan: Plan = field(repr=False)
    row: Row
    experiment: Experiment
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
        return entry_key(self.experiment.name, self.plan.budget, self.made.fingerprint, self.seed, test or {})

    def is_recorded(self, test: Mapping[str, Any] | None = None) -> bool:
        """Whether the ledger has its entry, or that of a test."""
        return self.key(test) in self.plan.ledger.entries

    @property
    def is_done(self) -> bool:
        """Whether the ledger has everything of it; of training time there are tests alone."""
        return all(map(self.is_recorded, self.tests)) and (self.experiment.is_timing or self.is_recorded())

    def begin(self) -> str:
        if self.is_done:  # by another process, while this one was at another run
            return ""
        runs = self.plan.runs
        done = len(runs) - len(self.plan.left())
        return f"Run {done + 1} of {len(runs)}: {self.name}{self.plan.time_left()}"

    def do(self, clock: Clock) -> str:
        spec = self.made.spec(self.seed, self.plan.data)
        if self.experiment.is_timing:
            from crvnn_experiments.speed import measure_speed

            self.plan.ledger.append(measure_speed(self, spec, clock))
            return ""
        if not self.is_recorded():
            from crvnn_core.spec import write_spec

            group = RunDirectory(self.directory.parent)
            if not group.seeds.exists():  # so that crvnn report, compare and eval know a directory of seeds
                write_spec(self.made.spec(0, self.plan.data), group.seeds, ["trained by crvnn reproduce"])
            outcome = train(self, spec, clock, self.plan.catalog).outcomes[self.directory]
            facts = {"steps": outcome.step, "best_step": outcome.best_step}
            self.plan.ledger.append([new_entry(self, spec, clock, **scores(outcome.results), **facts)])
        for test in self.tests:
            if not self.is_recorded(test):
                self.plan.ledger.append([self._tested(test)])
        return ""

    def _tested(self, test: Mapping[str, Any]) -> Entry:
        """The entry of a test of the trained model on other data."""
        import tomli_w

        from crvnn_core.inference.trained import load
        from crvnn_experiments.ledger import device_of

        sets = [f"task.{tomli_w.dumps({key: value})}" for key, value in test.items()]
        spec, clock = self.made.spec(self.seed, self.plan.data), Clock()
        trained = load(str(self.directory), self.plan.catalog, sets).to(device_of(spec))
        split = trained.task.splits[-1]
        found = trained.evaluate(trained.examples(split))
        return new_entry(self, spec, clock, **scores({split: found}), test=dict(test))
