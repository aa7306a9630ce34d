"""What the observers of experiment trackers share: metrics by name, the name of a run, and its id for resuming."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crvnn_core import CrvnnError
from crvnn_core.files import write_atomically


def run_name(directory: str | None) -> str:
    """``lstm`` for ``runs/lstm``, ``lstm/seed-2`` for ``runs/lstm/seed-2``; empty without a directory."""
    if not directory:
        return ""
    path = Path(directory).absolute()
    return f"{path.parent.name}/{path.name}" if path.name.startswith("seed-") else path.name


class RunId:
    """The id that a tracker gave to a run, kept in its directory so that a resumed run continues there.

    :param directory: of the run; without one nothing is kept.
    """

    def __init__(self, directory: str | None, tracker: str) -> None:
        self.path = Path(directory, f"{tracker}-run.txt") if directory else None

    def read(self) -> str:
        """The id; empty if there is none yet."""
        if self.path is None or not self.path.exists():
            return ""
        return self.path.read_text(encoding="utf-8").strip()

    def write(self, value: str) -> None:
        """Keep the id."""
        if self.path is not None:
            write_atomically(self.path, f"{value}\n")


def result_metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """Accuracy, loss and depth of each split and group: ``test/accuracy``, ``test/1-10/accuracy``."""
    found: dict[str, float | None] = {}
    for split, result in results.items():
        for group, score in {"": result["total"], **result["buckets"]}.items():
            place = f"{split}/{group}" if group else split
            found |= {f"{place}/{name}": score[name] for name in ("accuracy", "loss", "depth")}
    return {name: value for name, value in found.items() if value is not None}


def prefixed(kind: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """``loss`` as ``train/loss``."""
    return {f"{kind}/{name}": value for name, value in metrics.items()}


def imported(observer: str, extra: str, *names: str) -> Any:
    """The first of these modules, imported with the others when training begins; an error says what to install."""
    try:
        package, *_ = (importlib.import_module(name) for name in names)
    except ImportError as error:
        raise CrvnnError(
            f"the observer '{observer}' needs a package that is not installed ({error}): pip install 'crvnn[{extra}]'"
        ) from error
    return package
