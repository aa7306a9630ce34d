"""The directory of a study: which file holds what, and the lock that its processes share."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import tomli_w
from attrs import frozen

from crvnn_core.errors import CrvnnError, Origin
from crvnn_core.files import write_atomically
from crvnn_core.host.catalog import Catalog
from crvnn_core.spec import RunSpec, write_spec
from crvnn_core.spec.layers import read_toml
from crvnn_core.spec.resolve import resolve
from crvnn_sweep.settings import Sweep, read_sweep
from crvnn_sweep.space import Params, layer


@frozen
class StudyFacts:
    """Where a study is, as its directory keeps it."""

    #: The study's name in the database.
    study: str
    #: The address of the database, without a password; empty for SQLite in the directory.
    storage: str
    #: Where relative paths among the searched settings start.
    beside: str


@frozen
class StudyFiles:
    """The paths of the files of a study, with methods that read and write them."""

    path: Path

    @property
    def base(self) -> Path:
        """The resolved spec that the settings of a trial are laid over."""
        return self.path / "base.toml"

    @property
    def sweep(self) -> Path:
        """The table ``[sweep]``, complete."""
        return self.path / "sweep.toml"

    @property
    def study(self) -> Path:
        """Which study of which database this is."""
        return self.path / "study.json"

    @property
    def best(self) -> Path:
        """The resolved spec of the best trial."""
        return self.path / "best.toml"

    @property
    def exists(self) -> bool:
        """Whether the directory holds a study."""
        return self.study.exists()

    def create(self, base: RunSpec, sweep: Sweep, known: StudyFacts) -> None:
        """Write what is needed to resume the study."""
        write_spec(base, self.base, ["the spec that each trial of this sweep changes"])
        write_atomically(self.sweep, tomli_w.dumps({"sweep": sweep.plain()}))
        write_atomically(self.study, json.dumps(attrs.asdict(known), indent=1) + "\n")

    def read(self, catalog: Catalog) -> tuple[Sweep, StudyFacts]:
        """The sweep, and where its study is."""
        if not self.exists:
            missing = "it has no study.json" if self.path.is_dir() else "there is no such directory"
            raise CrvnnError(f"{self.path} is not a study of 'crvnn sweep': {missing}")
        try:
            known = StudyFacts(**json.loads(self.study.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CrvnnError(f"{self.study} is damaged: {error}") from None
        return read_sweep(catalog, read_toml(self.sweep)), known

    def tables(self) -> dict[str, Any]:
        """The resolved spec as plain tables."""
        return tomllib.loads(self.base.read_text(encoding="utf-8"))

    def trial_spec(self, catalog: Catalog, sweep: Sweep, params: Params, label: str) -> RunSpec:
        """The spec of a trial."""
        changes = layer(sweep.dimensions, params)
        _, known = self.read(catalog)
        origin = Origin(label, directory=Path(known.beside), every_stage=True)
        return resolve(catalog, [*read_toml(self.base), (changes, {}, origin)])

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process of this directory at a time. Without ``fcntl`` (Windows) nothing is locked."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
