"""The command group ``crvnn share``. Importing it does not import torch."""

from __future__ import annotations

import click

from crvnn_export.graphs.command import export_command
from crvnn_export.sharing.commands import pack_command, push_command


@click.group("share")
def share() -> None:
    """Export a model for other runtimes, pack a run as a zip file, or upload it.

    \b
    Examples:
      crvnn share export listops --to onnx --hard
      crvnn share pack runs/first
      crvnn share push runs/first me/my-first-model
    """


for _command in (export_command, pack_command, push_command):
    share.add_command(_command)
