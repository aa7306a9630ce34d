"""The observer ``tensorboard``: training metrics as TensorBoard event files. Needs the extra ``track``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crvnn_core import CrvnnError, FilePath, Observer
from crvnn_parts.observers.tracking import imported

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Observer):
    """Writes metrics of training and of the development split; ``tensorboard --logdir DIRECTORY`` plots them.

    :param directory: of the event files; empty for ``tensorboard`` in the run directory, or in the current one.
    """

    def __init__(self, directory: FilePath = "") -> None:
        self.directory = directory
        self._writer: SummaryWriter | None = None
        self._step = 0

    def started(self, steps: int, facts: Mapping[str, Any]) -> None:
        self._step = facts.get("step", 0)
        where = Path(self.directory or Path(facts.get("directory") or ".", "tensorboard"))
        package = imported("tensorboard", "track", "torch.utils.tensorboard")  # which takes a second
        try:
            # Events after the checkpoint that a killed run resumes from are discarded.
            self._writer = package.SummaryWriter(str(where), purge_step=self._step + 1)
        except OSError as error:
            raise CrvnnError(f"{where} cannot be written: {error}") from error

    def stepped(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write("train", step, metrics)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write("dev", step, metrics)

    def noted(self, message: str) -> None:
        if self._writer is not None:
            self._writer.add_text("notes", message, self._step)

    def finished(self, facts: Mapping[str, Any]) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        self._step = step
        if self._writer is not None:
            for name, value in metrics.items():
                self._writer.add_scalar(f"{kind}/{name}", value, step)
